/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reading the user's stack. */
#ifndef TOLLGATE_STACK_H
#define TOLLGATE_STACK_H

/* Registers are saved below the return address, the last of six 48 bytes. */
#define WINDOW_BELOW 64

/*
 * Reads a window of the stack that contains addr into c->window, and the word
 * at addr into c->word. One read of 1 KiB costs little more than one of 8
 * bytes and serves about ten frames.
 */
__noinline int read_window(struct cpu_state *c, u64 addr)
{
	u64 base = addr - WINDOW_BELOW;
	u32 bytes = WINDOW_WORDS * 8;

	if (!c)
		return 1;
	if (addr & 7)
		return bpf_probe_read_user(&c->word, 8, (void *)addr) ? 1 : 0;
	c->window_bytes = 0;
	if (bpf_probe_read_user(c->window, WINDOW_WORDS * 8, (void *)base)) {
		/* The window touches a page that is not there: stay in that of
		 * addr. */
		base = addr;
		bytes = 4096 - (addr & 4095);
		if (bytes > WINDOW_WORDS * 8)
			bytes = WINDOW_WORDS * 8;
		if (bpf_probe_read_user(c->window, bytes, (void *)base))
			return 1;
	}
	c->window_base = base;
	c->window_bytes = bytes;
	c->word = c->window[((addr - base) >> 3) & (WINDOW_WORDS - 1)];
	return 0;
}

/* Reads the word at addr into c->word; nonzero when it cannot be read. */
static __always_inline int read_stack(struct cpu_state *c, u64 addr)
{
	u64 at = addr - c->window_base;

	if ((at & 7) || at >= c->window_bytes)
		return read_window(c, addr);
	c->word = c->window[(at >> 3) & (WINDOW_WORDS - 1)];
	return 0;
}

/* What a sample may copy of its stack, and what a CPU may copy: BUDGET bytes at
 * once, RATE bytes in each 1024 ns after that (32 MB/s). */
#define COPY_MAX (64 << 10)
#define COPY_PIECES (COPY_MAX / STACK_PIECE)
#define COPY_BUDGET (1 << 20)
#define COPY_RATE 32

/*
 * Returns the end of the used part of the stack that sp points into, or 0: the
 * kernel knows where the stack of a main thread began; any other may reach to
 * the end of its mapping.
 */
static __always_inline u64 stack_end(struct cpu_state *c, u64 sp)
{
	struct mm_struct *mm = (void *)c->mm;
	u64 vma = find_vma(c, sp), start, end;

	if (!vma || bpf_probe_read_kernel(c->vma, sizeof(c->vma), (void *)vma))
		return 0;
	start = VMA_WORD(c, vm_start);
	end = VMA_WORD(c, vm_end);
	if (sp < start || sp >= end || VMA_WORD(c, vm_mm) != c->mm)
		return 0;
	start = BPF_CORE_READ(mm, start_stack);
	return sp < start && start < end ? start : end;
}

/* Sends a piece of the stack from address on; returns its length, or 0. */
static __always_inline u64 send_piece(struct cpu_state *c, u64 address, u64 end)
{
	u64 bytes = STACK_PIECE - (address & (STACK_PIECE - 1));
	struct stack_record *r;

	if (bytes > end - address)
		bytes = end - address;
	/* The verifier of 6.1 believes only what is checked at the end. */
	asm volatile("" : "+r"(bytes));
	if (!bytes || bytes > STACK_PIECE)
		return 0;
	r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r)
		return 0;
	r->header.time = c->record.header.time;
	r->header.length = sizeof(*r);
	r->header.kind = RECORD_STACK;
	r->header.flags = 0;
	r->address = address;
	r->cpu = c->cpu;
	r->bytes = bytes;
	if (bpf_probe_read_user(r->data, bytes, (void *)address)) {
		bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
		return 0;
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return bytes;
}

struct copying {
	struct cpu_state *c;
	u64 address; /* of the next piece */
	u64 end;
	u64 base; /* of the first piece that was sent */
};

/* A loop of its own, so that the verifier looks at one turn instead of all. */
static long copy_step(u32 index, struct copying *p)
{
	u64 bytes;

	if (p->address >= p->end)
		return 1;
	bytes = send_piece(p->c, p->address, p->end);
	if (bytes) {
		if (!p->base)
			p->base = p->address;
		p->address += bytes;
		p->c->copied = p->address - p->base;
	} else {
		/* A page that was never used, below the stack pointer or within
		 * a large array. */
		p->address = (p->address | (STACK_PIECE - 1)) + 1;
	}
	return 0;
}

/*
 * Copies the registers of the current frame and the stack from there on, for
 * user space to go on with. An epilogue has registers below the stack pointer
 * already. Half of the ring is left to samples.
 */
__noinline int copy_stack(struct cpu_state *c)
{
	u64 now, address, end, earned;
	struct copying copying = {};

	if (!c)
		return 1;
	now = c->record.header.time;
	earned = (now - c->copy_time) / 1024 * COPY_RATE;
	c->copy_time = now;
	if (earned > COPY_BUDGET || c->copy_budget + earned > COPY_BUDGET)
		c->copy_budget = COPY_BUDGET;
	else
		c->copy_budget += earned;
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > 2 * ring_quarter)
		goto uncopied;
	end = stack_end(c, c->sp);
	if (end <= c->sp)
		goto uncopied;
	address = c->sp - WINDOW_BELOW;
	if (end > address + COPY_MAX)
		end = address + COPY_MAX;
	if (end - address > c->copy_budget)
		goto uncopied;
	c->copied_frame.pc = c->pc;
	c->copied_frame.sp = c->sp;
	c->copied_frame.fp = c->fp;
	c->copied_frame.bx = c->bx;
	c->copied_frame.lr = c->lr;
	c->copy_registers = sizeof(c->copied_frame) / 8;
	if (c->exact) {
		__builtin_memcpy(c->copied_general, c->general, sizeof(c->general));
		c->copy_registers += GENERAL_REGS;
	}
	copying.c = c;
	copying.address = address;
	copying.end = end;
	bpf_loop(COPY_PIECES + 1, copy_step, &copying, 0);
	if (!c->copied) {
		c->copy_registers = 0;
		goto uncopied;
	}
	c->copy_budget -= c->copied;
	c->counters.copies++;
	c->counters.copied_bytes += c->copied;
	return 0;
uncopied:
	c->counters.uncopied++;
	return 0;
}

#endif
