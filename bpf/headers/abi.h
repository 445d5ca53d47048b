/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the sampler shares with user space. The Go twins are generated; sizes
 * and offsets are explicit so that both architectures agree.
 */
#ifndef TOLLGATE_ABI_H
#define TOLLGATE_ABI_H

/* How a rule computes the canonical frame address; unwind.CFAKind. */
enum cfa_kind {
	CFA_NONE,
	CFA_SP,
	CFA_FP,
	CFA_REG,
	CFA_DEREF_FP,
	CFA_DEREF_SP,
	CFA_PLT,
	CFA_SIGNAL,
	CFA_STOP,
	CFA_CHAIN,
	CFA_GO_SWITCH,
};

/* Where a register of the caller is; unwind.RegKind. */
enum reg_kind {
	REG_SAME,
	REG_AT_CFA,
	REG_AT_FP,
	REG_UNDEFINED,
	REG_IN_LR,
	REG_IN_REG, /* RA in the register numbered ra_off */
};

/* Why a stack ends; unwind.StopReason. */
enum stop_reason {
	STOP_COMPLETE,
	STOP_NO_MAPPING,
	STOP_TABLE_PENDING,
	STOP_NO_RULE,
	STOP_UNSUPPORTED_CFA,
	STOP_READ_FAILED,
	STOP_NO_PROGRESS,
	STOP_TOO_MANY_FRAMES,
	STOP_BAD_CHAIN,
	STOP_ANONYMOUS,
	STOP_NO_MM,
	STOP_IN_EXEC,
	STOP_COMPAT,
	STOP_KERNEL_THREAD,
	STOP_BAD_PC,
	STOP_INTERNAL,
	STOP_REASONS,
};

enum sample_class {
	CLASS_NORMAL,
	CLASS_EXIT,
	CLASS_EXEC,
	CLASS_KERNEL_THREAD,
	CLASS_COMPAT,
};

struct unwind_rule {
	u8 cfa;	     /* enum cfa_kind */
	u8 reg;	     /* DWARF number, for CFA_REG */
	u8 fp;	     /* enum reg_kind */
	u8 ra;	     /* enum reg_kind */
	s32 cfa_off;
	s16 fp_off;
	s16 ra_off;
	s16 bx_off;  /* 0: unchanged */
	s16 off2;    /* second addend of CFA_DEREF_SP */
};

/* The rows of 64 KiB of a file: rows[first .. first + count). */
struct table_page {
	u32 first;
	u32 count;
};

/*
 * Rows come in chunks because an array map of 4-byte values would take 8 bytes
 * for each. A page's rows never cross a chunk, so a search looks up one chunk.
 */
#define ROWS_PER_CHUNK (1 << 18)

struct row_chunk {
	u32 rows[ROWS_PER_CHUNK]; /* rule << 16 | low 16 bits of file offset */
};

struct file_key {
	u64 ino;
	u32 dev;
	u32 gen;
	u64 mtime; /* ns */
};

struct file_entry {
	u32 page_base;
	u32 page_count; /* 0: known to have no table */
	u16 id;
	u16 reserved;
	u32 reserved2;
};

/* A mapping whose file has no entry yet; follows the frames of its sample. */
struct missing_mapping {
	u64 start;
	u64 end;
	u64 offset;
	struct file_key key;
};

enum record_kind {
	RECORD_SAMPLE = 1,
	RECORD_FORK,
	RECORD_EXEC,
	RECORD_EXIT,
	RECORD_FREE,
	RECORD_STACK,
};

struct record_header {
	u64 time;   /* ns, CLOCK_MONOTONIC */
	u32 length; /* of the whole record, bytes */
	u16 kind;   /* enum record_kind */
	u16 flags;
};

#define SAMPLE_KERNEL 1 /* interrupted in kernel mode */
#define SAMPLE_MISS 2	/* a struct missing_mapping follows the frames */
#define SAMPLE_LEAF 4	/* the registers are those of the leaf, not of the last frame */

/*
 * Followed by kernel frames, user frames, missing mapping, registers. The copy
 * of the stack is in records of their own, before this one in the ring.
 */
struct sample_record {
	struct record_header header;
	u32 pid;
	u32 tid;
	u32 cpu;
	u32 run;
	u64 cgroup;
	char comm[16];
	u8 class;
	u8 reason;
	u16 kernel_frames;
	u16 user_frames;
	u16 registers;	 /* 8-byte words: struct frame_registers and, where they are
			  * known, the general registers by DWARF number; or 0 */
	u32 stack_bytes; /* from the first piece of the stack to the end of the last */
	u32 reserved;
};

/* The registers of the frame at which unwinding stopped. */
struct frame_registers {
	u64 pc;
	u64 sp;
	u64 fp;
	u64 bx;
	u64 lr;
};

/*
 * A piece of the stack, at most up to the end of a page: where less is mapped
 * than is asked for, a read fails as a whole. Its time and CPU are those of the
 * sample that follows.
 */
#define STACK_PIECE 4096

struct stack_record {
	struct record_header header;
	u64 address;
	u32 cpu;
	u32 bytes; /* used of data */
	u8 data[STACK_PIECE];
};

struct usage {
	u64 runtime; /* ns */
	u64 utime;   /* ns */
	u64 stime;   /* ns */
	u64 nvcsw;
	u64 nivcsw;
	u64 threads;
};

struct process_record {
	struct record_header header;
	u32 pid;
	u32 tid;
	u32 parent;
	u32 run;
	s32 exit_code;
	u32 reserved;
	char comm[16];
	struct usage usage;
};

/* A thread of a target, by the address of its task_struct, which cannot be
 * used again before the thread is freed. A thread id can. */
struct task_tag {
	u32 run;
	u32 pid;
	u32 tid;
	u32 exited; /* usage is that of the exit */
	struct usage usage;
};

/* Totals of one run, at index run % RUNS. */
#define RUNS 1024

struct run_state {
	u64 samples;
	u64 frames;	 /* with measure only, as is nanoseconds */
	u64 nanoseconds; /* in the program */
	struct usage usage;
	u32 run;
	u32 reserved;
};

struct comm_key {
	char comm[16];
};

struct counters {
	u64 taken;
	u64 kept;
	u64 lost;
	u64 idle;
	u64 frames;
	u64 walks;	/* mappings looked up in the address space */
	u64 checks;	/* cached mappings compared with the address space */
	u64 searches;	/* rules looked up in tables */
	u64 wakeups;
	u64 copies;	/* samples with a copy of their stack */
	u64 copied_bytes;
	u64 uncopied;	/* samples that should have had one */
	u64 nanoseconds;
	u64 reasons[STOP_REASONS];
};

/* Totals of the process events of one CPU. */
struct event_counters {
	u64 lost_events;
	u64 lost_tasks;
	u64 missed_frees; /* threads whose end was seen by their successor only */
};

#endif
