//go:build ignore
// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Samples every CPU: kernel stack, and user stack by unwind tables. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"
#include "maps.h"
#include "registers.h"
#include "mappings.h"
#include "stack.h"
#include "unwind.h"
#include "processes.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* No map holds these types: they are named here for the generated Go. */
const struct process_record *process_record_type __attribute__((unused));
const struct stack_record *stack_record_type __attribute__((unused));

#define WAKEUP_INTERVAL 1000000	     /* ns, at least, between wakeups by a CPU */
#define MISS_INTERVAL 50000000 /* ns, at least, between wakeups for one file */

/* What copy_stack() adds to a sample at most. */
#define COPIED_WORDS (sizeof(struct frame_registers) / 8 + GENERAL_REGS)

struct loop {
	struct cpu_state *c;
};

static long unwind_step(u32 index, struct loop *loop)
{
	return unwind_frame(loop->c) != 0;
}

/* Tells whether user space should be woken for what the sample holds. */
static __always_inline u64 wakeup_flag(struct cpu_state *c, u64 now)
{
	bool wake = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_quarter;

	if (now - c->last_wakeup < WAKEUP_INTERVAL)
		return BPF_RB_NO_WAKEUP;
	if (c->reason == STOP_TABLE_PENDING) {
		u64 ino = c->missing.key.ino;
		struct wakeup *w = &c->wakeups[ino & (WAKEUPS - 1)];

		if (w->ino != ino || now - w->time >= MISS_INTERVAL) {
			w->ino = ino;
			w->time = now;
			wake = 1;
		}
	}
	if (!wake)
		return BPF_RB_NO_WAKEUP;
	c->last_wakeup = now;
	c->counters.wakeups++;
	return BPF_RB_FORCE_WAKEUP;
}

/* Appends the mapping that has no table and the copied registers, and sends the
 * sample. */
static __always_inline void send(struct cpu_state *c, u64 now)
{
	struct sample_record *r = &c->record;
	u32 words = c->frame_words, length;

	r->reason = c->reason;
	r->user_frames = c->user_frames;
	if (c->reason == STOP_TABLE_PENDING && words <= FRAME_WORDS - 6) {
		*(struct missing_mapping *)&c->frames[words] = c->missing;
		words += 6;
		r->header.flags |= SAMPLE_MISS;
	}
	r->registers = 0;
	r->stack_bytes = 0;
	if (c->copy_registers && words <= FRAME_WORDS - COPIED_WORDS) {
		*(struct frame_registers *)&c->frames[words] = c->copied_frame;
		__builtin_memcpy(&c->frames[words + 5], c->copied_general, sizeof(c->copied_general));
		words += c->copy_registers;
		r->registers = c->copy_registers;
		r->stack_bytes = c->copied;
		if (copy_all)
			r->header.flags |= SAMPLE_LEAF;
	}
	if (words > FRAME_WORDS)
		words = FRAME_WORDS;
	length = sizeof(*r) + words * 8;
	r->header.length = length;
	if (bpf_ringbuf_output(&ring, r, length, wakeup_flag(c, now))) {
		c->counters.lost++;
		return;
	}
	c->counters.kept++;
	c->counters.frames += c->user_frames;
	c->counters.reasons[c->reason & (STOP_REASONS - 1)]++;
}

/* Unwinds the user stack of the current task, as far as it has one. */
static __always_inline void sample_user(struct cpu_state *c, struct task_struct *task,
					struct bpf_perf_event_data *ctx, bool kernel)
{
	struct sample_record *r = &c->record;
	struct mm_struct *mm = task->mm;
	struct loop loop = {.c = c};
	u32 flags = task->flags;
	bool compat;

	r->class = CLASS_NORMAL;
	if (flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)) {
		r->class = CLASS_KERNEL_THREAD;
		c->reason = STOP_KERNEL_THREAD;
		return;
	}
	if (flags & PF_EXITING)
		r->class = CLASS_EXIT;
	if (kernel && BPF_CORE_READ_BITFIELD(task, in_execve)) {
		/* The registers may be of the old image, the memory of the new. */
		r->class = CLASS_EXEC;
		c->reason = STOP_IN_EXEC;
		return;
	}
	if (!mm) {
		c->reason = STOP_NO_MM;
		return;
	}
	if (kernel) {
		struct pt_regs *regs = (void *)c->saved;

		if (bpf_probe_read_kernel(regs, sizeof(*regs),
					  (void *)bpf_task_pt_regs(task))) {
			c->reason = STOP_INTERNAL;
			return;
		}
		LOAD_REGISTERS(c, regs);
		compat = is_compat(regs);
	} else {
		LOAD_REGISTERS(c, &ctx->regs);
		compat = is_compat(&ctx->regs);
	}
	if (compat) {
		r->class = CLASS_COMPAT;
		c->reason = STOP_COMPAT;
		return;
	}
	if (!select_slot(c, task, mm)) {
		c->reason = STOP_INTERNAL;
		return;
	}
	c->exact = 1;
	c->window_bytes = 0;
	c->current.start = c->current.end = 0;
	c->reason = STOP_TOO_MANY_FRAMES;
	if (copy_all)
		copy_stack(c);
	bpf_loop(MAX_USER_FRAMES + 1, unwind_step, &loop, 0);
	if (!copy_all && c->reason == STOP_TABLE_PENDING)
		copy_stack(c);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();
	u32 cpu = bpf_get_smp_processor_id();
	struct sample_record *r;
	struct task_struct *task;
	struct cpu_state *c;
	bool kernel;

	c = bpf_map_lookup_elem(&cpus, &cpu);
	if (!c)
		return 0;
	if (!id) {
		c->counters.idle++;
		return 0;
	}
	c->counters.taken++;
	c->cpu = cpu;
	c->user_frames = 0;
	c->frame_words = 0;
	c->copied = 0;
	c->copy_registers = 0;
	task = bpf_get_current_task_btf();
	kernel = in_kernel(&ctx->regs);

	r = &c->record;
	r->header.time = now;
	r->header.kind = RECORD_SAMPLE;
	r->header.flags = 0;
	r->pid = id >> 32;
	r->tid = id;
	r->cpu = cpu;
	r->run = count_target(task);
	r->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	r->kernel_frames = 0;
	if (kernel) {
		long bytes = bpf_get_stack(ctx, c->frames, MAX_KERNEL_FRAMES * 8, 0);

		r->header.flags = SAMPLE_KERNEL;
		if (bytes > 0) {
			c->frame_words = bytes / 8;
			r->kernel_frames = bytes / 8;
		}
	}
	sample_user(c, task, ctx, kernel);
	send(c, now);
	if (measure) {
		u64 took = bpf_ktime_get_ns() - now;

		c->counters.nanoseconds += took;
		measure_target(r->run, c->user_frames, took);
	}
	return 0;
}
