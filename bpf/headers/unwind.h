/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unwinding, one frame at a time. unwind.Walk is the reference. */
#ifndef TOLLGATE_UNWIND_H
#define TOLLGATE_UNWIND_H

#define PAGE_BITS 16 /* of file offset in one table_page */
/* What a frame has room for below the file id: a file offset, or an address of
 * the 47 bits that user space has without asking for more. */
#define OFFSET_MASK ((1ULL << 48) - 1)

/* How far above the stack pointer a frame pointer is believed without call
 * frame information. */
#define CHAIN_REACH (1ULL << 20)

static __always_inline int stop(struct cpu_state *c, u32 reason)
{
	c->reason = reason;
	return 1;
}

static __always_inline void emit(struct cpu_state *c, u64 frame)
{
	c->frames[c->frame_words & (FRAME_WORDS - 1)] = frame;
	c->frame_words++;
	c->user_frames++;
}

/* Searches the table of the current mapping for the rule at a file offset. */
__noinline int search_rule(struct cpu_state *c, u64 offset)
{
	u32 page_index = offset >> PAGE_BITS, low = offset & ((1 << PAGE_BITS) - 1);
	struct unwind_rule *rule;
	struct table_page *page;
	struct row_chunk *chunk;
	u32 chunk_index, first, end, rule_index;

	if (!c)
		return STOP_INTERNAL;
	c->counters.searches++;
	if (page_index >= c->current.page_count)
		return STOP_NO_RULE;
	page_index += c->current.page_base;
	page = bpf_map_lookup_elem(&pages, &page_index);
	if (!page || !page->count)
		return STOP_NO_RULE;
	chunk_index = page->first / ROWS_PER_CHUNK;
	first = page->first % ROWS_PER_CHUNK;
	end = first + page->count;
	chunk = bpf_map_lookup_elem(&rows, &chunk_index);
	if (!chunk)
		return STOP_INTERNAL;
	/* A page has at most 1 << 16 rows. */
	for (u32 i = 0; i <= PAGE_BITS; i++) {
		u32 middle;

		if (first >= end)
			break;
		middle = (first + end) >> 1;
		if ((chunk->rows[middle & (ROWS_PER_CHUNK - 1)] & 0xffff) <= low)
			first = middle + 1;
		else
			end = middle;
	}
	/* Every page has a row at its start, so there is one before first. */
	rule_index = chunk->rows[(first - 1) & (ROWS_PER_CHUNK - 1)] >> 16;
	rule = bpf_map_lookup_elem(&rules, &rule_index);
	if (!rule)
		return STOP_INTERNAL;
	c->rule = *rule;
	return 0;
}

/*
 * Finds the rule of a frame. A CPU remembers the rules of the frames it met:
 * one cache line instead of the dozen that the search touches, all of them
 * cold after the sampled program has used the CPU.
 */
static __always_inline int find_rule(struct cpu_state *c, u64 frame, u64 offset)
{
	u32 index = c->cpu * CACHED_RULES +
		    (u32)((frame * 0x9e3779b97f4a7c15ULL) >> (64 - 10));
	struct cached_rule *cached = bpf_map_lookup_elem(&cached_rules, &index);
	int reason;

	if (!cached)
		return STOP_INTERNAL;
	if (cached->frame == frame && cached->generation == c->generation) {
		c->rule = cached->rule;
		return 0;
	}
	reason = search_rule(c, offset);
	if (reason)
		return reason;
	cached->frame = frame;
	cached->generation = c->generation;
	cached->rule = c->rule;
	return 0;
}

/* Makes the caller the current frame. */
static __always_inline int enter_caller(struct cpu_state *c, u64 pc, u64 sp)
{
	pc = strip_pointer(pc);
	/* Runtimes end the stacks of their threads with a return address of 0. */
	if (!pc)
		return stop(c, STOP_COMPLETE);
	if (pc > OFFSET_MASK)
		return stop(c, STOP_BAD_PC);
	c->pc = pc;
	c->sp = sp;
	c->exact = 0;
	return 0;
}

/*
 * (sp, fp, pc) = (fp + size, *fp, *(fp + 8)); size is 0 for 16 bytes on the
 * same stack, otherwise fp may lie on another one. On arm64, Go keeps the frame
 * pointer below the frame, so that its size counts.
 */
__noinline int follow_chain(struct cpu_state *c, u32 size)
{
	u64 frame, next;

	if (!c)
		return 1;
	frame = c->fp;
	if (!frame)
		return stop(c, STOP_COMPLETE);
	if ((frame & 7) ||
	    (!size && (frame < c->sp || frame - c->sp >= CHAIN_REACH)))
		return stop(c, STOP_BAD_CHAIN);
	if (read_stack(c, frame))
		return stop(c, STOP_READ_FAILED);
	next = c->word;
	if (read_stack(c, frame + 8))
		return stop(c, STOP_READ_FAILED);
	c->fp = next;
	return enter_caller(c, c->word, frame + (size ? size : 16));
}

/* Restores all registers from the frame that the kernel built for a signal
 * handler. The interrupted instruction is next, not behind a call. */
__noinline int leave_signal(struct cpu_state *c)
{
	if (!c)
		return 1;
	if (bpf_probe_read_user(c->saved, SIGNAL_WORDS * 8,
				(void *)(c->sp + SIGNAL_OFFSET)))
		return stop(c, STOP_READ_FAILED);
	load_signal(c);
	if (!c->pc)
		return stop(c, STOP_COMPLETE);
	if (c->pc > OFFSET_MASK)
		return stop(c, STOP_BAD_PC);
	c->exact = 1;
	return 0;
}

/* Applies c->rule, whose frame has the given CFA. */
static __always_inline int leave_frame(struct cpu_state *c, u64 cfa)
{
	u64 pc;

	if (c->rule.ra == REG_AT_CFA) {
		if (read_stack(c, cfa + c->rule.ra_off))
			return stop(c, STOP_READ_FAILED);
		pc = c->word;
		if (cfa <= c->sp)
			return stop(c, STOP_NO_PROGRESS);
	} else if (c->rule.ra == REG_IN_LR) {
		/* The link register of a frame that has called another holds an
		 * address of its own code by now. */
		if (!c->exact || cfa < c->sp)
			return stop(c, STOP_NO_PROGRESS);
		pc = c->lr;
	} else if (c->rule.ra == REG_IN_REG) {
		if (!c->exact)
			return stop(c, STOP_UNSUPPORTED_CFA);
		if (cfa < c->sp)
			return stop(c, STOP_NO_PROGRESS);
		pc = c->general[c->rule.ra_off & (GENERAL_REGS - 1)];
	} else if (c->rule.ra == REG_UNDEFINED) {
		return stop(c, STOP_COMPLETE);
	} else {
		return stop(c, STOP_INTERNAL);
	}
	if (c->rule.fp == REG_AT_CFA || c->rule.fp == REG_AT_FP) {
		u64 base = c->rule.fp == REG_AT_CFA ? cfa : c->fp;

		if (read_stack(c, base + c->rule.fp_off))
			return stop(c, STOP_READ_FAILED);
		c->fp = c->word;
	}
#if defined(__TARGET_ARCH_x86)
	if (c->rule.bx_off) {
		if (read_stack(c, cfa + c->rule.bx_off))
			return stop(c, STOP_READ_FAILED);
		c->bx = c->word;
	}
#endif
	return enter_caller(c, pc, cfa);
}

/* Emits the current frame and moves to its caller; nonzero ends the stack with
 * c->reason. */
__noinline int unwind_frame(struct cpu_state *c)
{
	u64 addr, offset, frame, cfa;
	u32 kind;
	int reason;

	if (!c)
		return 1;
	if (c->user_frames >= MAX_USER_FRAMES)
		return stop(c, STOP_TOO_MANY_FRAMES);
	addr = c->pc - !c->exact;
	if (addr > OFFSET_MASK)
		return stop(c, STOP_BAD_PC);
	if (addr - c->current.start >= c->current.end - c->current.start) {
		reason = find_mapping(c, addr);
		if (reason) {
			emit(c, addr);
			return stop(c, reason);
		}
	}
	if (c->current.flags) {
		emit(c, addr);
		if (c->current.flags & MAPPING_PENDING)
			return stop(c, STOP_TABLE_PENDING);
		if (follow_chain(c, 0)) {
			if (c->reason != STOP_COMPLETE)
				c->reason = STOP_ANONYMOUS;
			return 1;
		}
		return 0;
	}
	offset = (addr + c->current.delta) & OFFSET_MASK;
	frame = (u64)c->current.id << 48 | offset;
	emit(c, frame);
	if (!c->current.page_count)
		return follow_chain(c, 0);
	reason = find_rule(c, frame, offset);
	if (reason)
		return stop(c, reason);

	kind = c->rule.cfa;
	if (kind == CFA_SP) {
		cfa = c->sp + c->rule.cfa_off;
	} else if (kind == CFA_FP) {
		cfa = c->fp + c->rule.cfa_off;
	} else if (kind == CFA_STOP) {
		return stop(c, STOP_COMPLETE);
	} else if (kind == CFA_CHAIN || kind == CFA_GO_SWITCH) {
		return follow_chain(c, kind == CFA_GO_SWITCH ? c->rule.cfa_off : 0);
	} else if (kind == CFA_REG) {
		if (c->exact && c->rule.reg < GENERAL_REGS)
			cfa = c->general[c->rule.reg & (GENERAL_REGS - 1)];
#if defined(__TARGET_ARCH_x86)
		else if (c->rule.reg == DWARF_BX)
			cfa = c->bx;
#endif
		else
			return stop(c, STOP_UNSUPPORTED_CFA);
		cfa += c->rule.cfa_off;
	} else if (kind == CFA_DEREF_FP) {
		if (read_stack(c, c->fp + c->rule.cfa_off))
			return stop(c, STOP_READ_FAILED);
		cfa = c->word;
	} else if (kind == CFA_DEREF_SP) {
		if (read_stack(c, c->sp + c->rule.cfa_off))
			return stop(c, STOP_READ_FAILED);
		cfa = c->word + c->rule.off2;
	} else if (kind == CFA_PLT) {
		cfa = c->sp + 8 + ((c->pc & 15) >= 11 ? 8 : 0);
	} else if (kind == CFA_SIGNAL) {
		return leave_signal(c);
	} else {
		return stop(c, kind == CFA_NONE ? STOP_NO_RULE : STOP_INTERNAL);
	}
	return leave_frame(c, cfa);
}

#endif
