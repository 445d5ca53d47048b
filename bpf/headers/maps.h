/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The maps, and what each CPU keeps between and during samples. A CPU's parts
 * are touched by that CPU alone, with interrupts disabled, so nothing in them
 * needs a lock and no entry is ever seen half written.
 */
#ifndef TOLLGATE_MAPS_H
#define TOLLGATE_MAPS_H

#define MAX_KERNEL_FRAMES 127
#define MAX_USER_FRAMES 1024
#define FRAME_WORDS 2048 /* room for both and a missing mapping; a power of two */
#define WINDOW_WORDS 128 /* of the stack, read at once: 1 KiB */
#define GENERAL_REGS 32
#define VMA_WORDS 32 /* the fields used lie in the first 20 of all kernels so far */

/* Mappings that a process's slot remembers. */
#define MAPPINGS 16
/* Rules that a CPU remembers by frame. */
#define CACHED_RULES 1024

#define MAPPING_ANONYMOUS 1 /* no file: generated code */
#define MAPPING_PENDING 2   /* a file without entry yet; never cached */

struct mapping {
	u64 start;
	u64 end;
	u64 delta; /* file offset - process address */
	u64 vma;
	u64 inode;
	u64 version; /* of the file behind inode, see version_of() */
	u32 page_base;
	u32 page_count;
	u16 id;
	u16 flags;
	u32 epoch; /* when the mapping was last found to be true */
};

/*
 * A process of which a CPU remembers mappings. The slot belongs to one address
 * space for good (identity); whether the mappings still hold is told by the
 * kernel's count of write locks of the address space. When the count moved, or
 * on kernels without one, each mapping is compared with its vm_area_struct
 * before its first use in a sample, which costs a tenth of a walk and needs no
 * flush when a process maps memory all the time.
 */
struct process_slot {
	u64 identity;
	u32 generation; /* of the file entries */
	u32 locks;	/* mm_lock_seq */
	u32 epoch;
	u16 count;
	u16 next; /* to be replaced when full */
	u64 reserved[5];
	u64 start[MAPPINGS];
	u64 size[MAPPINGS];
	struct mapping mappings[MAPPINGS];
};

struct cached_rule {
	u64 frame;
	u32 generation;
	u32 reserved;
	struct unwind_rule rule;
};

/* When a CPU last woke user space for a file. */
struct wakeup {
	u64 ino;
	u64 time;
};

#define WAKEUPS 16

struct cpu_state {
	struct counters counters;

	/* The frame being unwound. */
	u64 pc;
	u64 sp;
	u64 fp;
	u64 bx;
	u64 lr;
	u32 exact;	/* pc is an instruction, not a return address, and all registers are known */
	u32 generation;
	u32 cpu;
	u32 user_frames;
	u32 frame_words; /* in frames[] */
	u32 reason;
	u32 copied;	    /* bytes of the stack of this sample, holes included */
	u32 copy_registers; /* words of copied_frame and copied_general that are sent, or 0 */
	u64 mm;
	u64 vdso;
	u32 slot;
	u32 window_bytes;
	u64 window_base;
	u64 word; /* result of read_stack */
	struct unwind_rule rule;
	struct mapping current;
	struct missing_mapping missing;
	u64 last_wakeup;
	struct wakeup wakeups[WAKEUPS];

	u64 general[GENERAL_REGS]; /* by DWARF number */
	u64 node[32];		   /* of the maple tree */
	u64 vma[VMA_WORDS];	   /* the head of a vm_area_struct */
	u64 window[WINDOW_WORDS];
	u64 saved[34];	/* registers, as the kernel or a signal frame holds them */
	struct sample_record record;
	u64 frames[FRAME_WORDS];

	/* Last, because few samples touch it. */
	u64 copy_budget; /* bytes of stack that may be copied now */
	u64 copy_time;	 /* when it was that much, ns */
	struct frame_registers copied_frame;
	u64 copied_general[GENERAL_REGS];
};

#define ARRAY(name_, value_, entries_)                                         \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(map_flags, BPF_F_MMAPABLE);                             \
		__uint(max_entries, entries_);                                 \
		__type(key, u32);                                              \
		__type(value, value_);                                         \
	} name_ SEC(".maps")

/* The loader sets the sizes that depend on the machine and on options. */
ARRAY(cpus, struct cpu_state, 1);
ARRAY(slots, struct process_slot, 1);
ARRAY(cached_rules, struct cached_rule, 1);
ARRAY(events, struct event_counters, 1);
ARRAY(rows, struct row_chunk, 16);
ARRAY(pages, struct table_page, 65536);
ARRAY(rules, struct unwind_rule, 65536);
ARRAY(runs, struct run_state, RUNS);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, struct file_key);
	__type(value, struct file_entry);
} files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct task_tag);
} tasks SEC(".maps");

/* tgid -> run: what the process forks becomes a target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u32);
} armed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct comm_key);
	__type(value, struct usage);
} others SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/* Set before the program is loaded. */
const volatile u32 page_shift = 12;
const volatile u32 slot_bits = 6; /* slots of a CPU, as a power of two */
const volatile u32 measure = 0;
const volatile u32 copy_all = 0; /* copy every stack, to compare both unwinders */
const volatile u64 ring_quarter = 2 << 20;
const volatile u64 load_time = 0;

/* Set by user space while sampling. */
u32 generation = 0;
u32 runs_active = 0;

#endif
