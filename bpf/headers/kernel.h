/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The parts of the kernel's interface that the sampler touches, for both
 * architectures. Types marked CORE are matched by field name when the program
 * is loaded, so only the fields used are listed, in any order. A suffix after
 * three underscores is not part of the name: it tells the shapes of one type
 * in different kernels apart.
 */
#ifndef TOLLGATE_KERNEL_H
#define TOLLGATE_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;

#define NULL ((void *)0)
#define true 1
#define false 0
#define CORE __attribute__((preserve_access_index))

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_RB_NO_WAKEUP (1ULL << 0)
#define BPF_RB_FORCE_WAKEUP (1ULL << 1)
#define BPF_RB_AVAIL_DATA 0

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000

/* include/linux/mm.h */
#define VM_EXEC 0x00000004
#define PAGE_SHIFT_MIN 12

#if defined(__TARGET_ARCH_x86)

/* struct pt_regs is part of the ABI (ptrace, perf), so it needs no CORE. */
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
typedef struct pt_regs bpf_user_pt_regs_t;

#elif defined(__TARGET_ARCH_arm64)

struct user_pt_regs {
	u64 regs[31], sp, pc, pstate;
};
typedef struct user_pt_regs bpf_user_pt_regs_t;

/* The kernel's struct pt_regs begins with user_pt_regs. */
struct pt_regs {
	u64 regs[31], sp, pc, pstate;
};

#else
#error "build with -D__TARGET_ARCH_x86 or -D__TARGET_ARCH_arm64"
#endif

struct bpf_perf_event_data {
	bpf_user_pt_regs_t regs;
	u64 sample_period;
	u64 addr;
};

/* Memory */

struct maple_tree {
	void *ma_root;
} CORE;

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
} CORE;

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
} CORE;

typedef struct {
	u64 ctx_id; /* amd64 only: unique for the lifetime of the system */
	void *vdso;
} CORE mm_context_t;

struct mm_struct {
	struct maple_tree mm_mt;
	unsigned long start_stack;
	mm_context_t context;
} CORE;

/* Before 6.14, and since: the number of times the mappings were locked. */
struct mm_struct___locked {
	int mm_lock_seq;
} CORE;

struct seqcount {
	unsigned int sequence;
} CORE;

struct mm_struct___seqcount {
	struct seqcount mm_lock_seq;
} CORE;

struct super_block {
	u32 s_dev;
} CORE;

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
} CORE;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	u32 i_generation;
} CORE;

/* Until 6.6, until 6.10, and since. */
struct inode___plain {
	struct timespec64 i_mtime;
} CORE;

struct inode___hidden {
	struct timespec64 __i_mtime;
} CORE;

struct inode___split {
	s64 i_mtime_sec;
	u32 i_mtime_nsec;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
} CORE;

/* Since 6.14, and since 6.3: whether the mapping is still part of its address
 * space. Its memory keeps what it held after it was freed. */
struct vm_area_struct___counted {
	struct {
		struct {
			int counter;
		} refs;
	} vm_refcnt;
} CORE;

struct vm_area_struct___flagged {
	bool detached;
} CORE;

/* Tasks */

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
} CORE;

struct sched_entity {
	u64 sum_exec_runtime;
} CORE;

struct task_struct {
	unsigned int flags;
	struct sched_entity se;
	struct mm_struct *mm;
	int exit_code;
	unsigned int in_execve : 1;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	u64 utime;
	u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	u64 self_exec_id;
	char comm[16];
	struct signal_struct *signal;
} CORE;

struct linux_binprm;

#endif
