/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a process address to a file and its table. */
#ifndef TOLLGATE_MAPPINGS_H
#define TOLLGATE_MAPPINGS_H

#define MAPLE_LEVELS 10
/* enum maple_type in bits 3-6 of a pointer to a node, lib/maple_tree.c. */
#define MAPLE_TYPE(entry) (((entry) >> 3) & 15)
#define MAPLE_LEAF_64 1
#define MAPLE_RANGE_64 2
#define MAPLE_ARANGE_64 3
#define MAPLE_NODE_MASK 255ULL
#define MAPLE_NODE_WORDS 32
#define MAPLE_RESERVED 4096 /* entries up to here are not pointers */

#define WORD_OF(type, field) (bpf_core_field_offset(type, field) / 8)

/*
 * Returns the entry of c->node whose range holds addr. A pivot is the last
 * address of a slot; the pivot after the last used slot is 0, and the last
 * slot has none because the parent bounds it.
 */
__noinline u64 node_entry(struct cpu_state *c, u64 addr, u32 arange)
{
	u32 pivots, slots, count, i;

	if (!c)
		return 0;
	if (arange) {
		pivots = WORD_OF(struct maple_arange_64, pivot);
		slots = WORD_OF(struct maple_arange_64, slot);
	} else {
		pivots = WORD_OF(struct maple_range_64, pivot);
		slots = WORD_OF(struct maple_range_64, slot);
	}
	count = slots - pivots;
	for (i = 0; i < 16; i++) {
		u64 pivot;

		if (i >= count)
			break;
		pivot = c->node[(pivots + i) & (MAPLE_NODE_WORDS - 1)];
		if (pivot >= addr || (!pivot && i))
			break;
	}
	return c->node[(slots + i) & (MAPLE_NODE_WORDS - 1)];
}

/* Returns the address of the vm_area_struct that may hold addr, or 0. The tree
 * is read without lock: the caller checks what it finds. */
__noinline u64 find_vma(struct cpu_state *c, u64 addr)
{
	struct mm_struct *mm;
	u64 entry;

	if (!c)
		return 0;
	mm = (void *)c->mm;
	entry = (u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	/* A tree of one entry has no node, xa_is_node(). */
	if ((entry & 3) != 2)
		return 0;
	for (u32 level = 0; level < MAPLE_LEVELS; level++) {
		u32 type = MAPLE_TYPE(entry);

		if (entry <= MAPLE_RESERVED)
			return 0;
		if (bpf_probe_read_kernel(c->node, sizeof(c->node),
					  (void *)(entry & ~MAPLE_NODE_MASK)))
			return 0;
		entry = node_entry(c, addr, type == MAPLE_ARANGE_64);
		if (type == MAPLE_LEAF_64)
			return entry;
		if (type != MAPLE_ARANGE_64 && type != MAPLE_RANGE_64)
			return 0;
	}
	return 0;
}

static __always_inline u64 mtime_of(void *inode)
{
	struct inode___plain *plain = inode;
	struct inode___hidden *hidden = inode;
	struct inode___split *split = inode;

	if (bpf_core_field_exists(split->i_mtime_sec))
		return BPF_CORE_READ(split, i_mtime_sec) * 1000000000ULL +
		       BPF_CORE_READ(split, i_mtime_nsec);
	if (bpf_core_field_exists(hidden->__i_mtime))
		return BPF_CORE_READ(hidden, __i_mtime.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(hidden, __i_mtime.tv_nsec);
	if (bpf_core_field_exists(plain->i_mtime))
		return BPF_CORE_READ(plain, i_mtime.tv_sec) * 1000000000ULL +
		       BPF_CORE_READ(plain, i_mtime.tv_nsec);
	return 0;
}

/* Tells two files apart whose inodes have had the same address. */
static __always_inline u64 version_of(u64 ino, u64 mtime)
{
	return ino * 0x9e3779b97f4a7c15ULL + mtime;
}

/* Fields of the vm_area_struct in c->vma. One read of its head costs less than
 * a read of each. */
#define VMA_WORD(c, field)                                                     \
	((c)->vma[WORD_OF(struct vm_area_struct, field) & (VMA_WORDS - 1)])

/* Reads vma and tells whether it is an executable mapping of addr; a stop
 * reason when not. The memory may have become that of something else. */
static __always_inline int read_vma(struct cpu_state *c, u64 vma, u64 addr)
{
	if (bpf_probe_read_kernel(c->vma, sizeof(c->vma), (void *)vma))
		return STOP_NO_MAPPING;
	if (addr < VMA_WORD(c, vm_start) || addr >= VMA_WORD(c, vm_end) ||
	    VMA_WORD(c, vm_mm) != c->mm)
		return STOP_NO_MAPPING;
	return VMA_WORD(c, vm_flags) & VM_EXEC ? 0 : STOP_BAD_PC;
}

/* Finds the mapping of addr in the address space; c->current becomes it. */
__noinline int walk_mappings(struct cpu_state *c, u64 addr)
{
	struct file_entry *entry;
	struct inode *inode;
	struct mapping *m;
	struct file_key key = {};
	struct file *file;
	u64 vma, offset;
	int reason;

	if (!c)
		return STOP_INTERNAL;
	m = &c->current;
	c->counters.walks++;
	m->start = m->end = 0;
	vma = find_vma(c, addr);
	if (!vma)
		return STOP_NO_MAPPING;
	reason = read_vma(c, vma, addr);
	if (reason)
		return reason;
	m->start = VMA_WORD(c, vm_start);
	m->end = VMA_WORD(c, vm_end);
	m->vma = vma;
	m->inode = m->version = 0;
	m->page_base = m->page_count = 0;
	m->flags = 0;
	m->id = 0;
	file = (void *)VMA_WORD(c, vm_file);
	offset = VMA_WORD(c, vm_pgoff) << page_shift;
	if (file) {
		inode = BPF_CORE_READ(file, f_inode);
		key.ino = BPF_CORE_READ(inode, i_ino);
		key.dev = BPF_CORE_READ(inode, i_sb, s_dev);
		key.gen = BPF_CORE_READ(inode, i_generation);
		key.mtime = mtime_of(inode);
		m->inode = (u64)inode;
		m->version = version_of(key.ino, key.mtime);
	} else if (m->start == c->vdso) {
		key.ino = 1;
		offset = 0;
	} else {
		m->flags = MAPPING_ANONYMOUS;
	}
	m->delta = offset - m->start;
	if (m->flags)
		return 0;
	/* Before kernel 6.2 a key must lie on the stack or in a map value. */
	entry = bpf_map_lookup_elem(&files, &key);
	if (!entry) {
		m->flags = MAPPING_PENDING;
		c->missing.key = key;
		c->missing.start = m->start;
		c->missing.end = m->end;
		c->missing.offset = offset;
		return 0;
	}
	m->id = entry->id;
	m->page_base = entry->page_base;
	m->page_count = entry->page_count;
	return 0;
}

/* Tells whether vma belongs to an address space; false where the kernel keeps
 * no note of it. */
static __always_inline bool attached(u64 vma)
{
	struct vm_area_struct___counted *counted = (void *)vma;
	struct vm_area_struct___flagged *flagged = (void *)vma;

	if (bpf_core_field_exists(counted->vm_refcnt))
		return BPF_CORE_READ(counted, vm_refcnt.refs.counter) != 0;
	if (bpf_core_field_exists(flagged->detached))
		return !BPF_CORE_READ(flagged, detached);
	return false;
}

/*
 * Tells whether the address space still has the mapping. Not even a loaded
 * library that replaced another one at the same address is told by the
 * addresses of its vm_area_struct and file: the kernel gives the memory that
 * was freed last to whoever asks next, and leaves what nobody asked for as it
 * was.
 */
__noinline int still_mapped(struct cpu_state *c, struct mapping *m)
{
	struct inode *inode;
	struct file *file;

	if (!c || !m)
		return 0;
	c->counters.checks++;
	if (!attached(m->vma))
		return 0;
	if (read_vma(c, m->vma, m->start) || VMA_WORD(c, vm_start) != m->start ||
	    VMA_WORD(c, vm_end) != m->end)
		return 0;
	file = (void *)VMA_WORD(c, vm_file);
	if (!file)
		return !m->inode;
	inode = BPF_CORE_READ(file, f_inode);
	return (u64)inode == m->inode &&
	       m->start + m->delta == VMA_WORD(c, vm_pgoff) << page_shift &&
	       m->version == version_of(BPF_CORE_READ(inode, i_ino), mtime_of(inode));
}

/* Makes the mapping of addr c->current; a stop reason when there is none. */
__noinline int find_mapping(struct cpu_state *c, u64 addr)
{
	struct process_slot *slot;
	u32 index, i, found = MAPPINGS;
	struct mapping *m;
	int reason;

	if (!c)
		return STOP_INTERNAL;
	index = c->slot;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return STOP_INTERNAL;
	for (i = 0; i < MAPPINGS; i++) {
		if (i >= slot->count)
			break;
		if (addr - slot->start[i] < slot->size[i]) {
			found = i;
			break;
		}
	}
	if (found < MAPPINGS) {
		m = &slot->mappings[found & (MAPPINGS - 1)];
		if (m->epoch == slot->epoch || still_mapped(c, m)) {
			m->epoch = slot->epoch;
			c->current = *m;
			return 0;
		}
		/* The walk's result takes its place. */
		slot->size[found & (MAPPINGS - 1)] = 0;
	}
	reason = walk_mappings(c, addr);
	if (reason || (c->current.flags & MAPPING_PENDING))
		return reason;
	if (found == MAPPINGS) {
		found = slot->count;
		if (found < MAPPINGS) {
			slot->count = found + 1;
		} else {
			found = slot->next;
			slot->next = (found + 1) & (MAPPINGS - 1);
		}
	}
	found &= MAPPINGS - 1;
	c->current.epoch = slot->epoch;
	slot->mappings[found] = c->current;
	slot->start[found] = c->current.start;
	slot->size[found] = c->current.end - c->current.start;
	return 0;
}

/*
 * A number that no other address space has had, or has on this kernel while
 * the process lives: the kernel's own on amd64; elsewhere the process with when
 * it began and how often it has called execve. The mm's address would serve
 * too, but the verifier lets no pointer into arithmetic.
 */
static __always_inline u64 identity_of(struct task_struct *task, struct mm_struct *mm)
{
	struct task_struct *leader;
	u64 id = (u64)task->tgid << 32;

	if (bpf_core_field_exists(mm->context.ctx_id))
		return mm->context.ctx_id;
	leader = task->group_leader;
	if (leader)
		id ^= leader->start_time * 0x9e3779b97f4a7c15ULL;
	return id + task->self_exec_id;
}

/* The number of times that the mappings were locked, or 0 where the kernel
 * does not count. */
static __always_inline u32 locks_of(struct mm_struct *mm)
{
	struct mm_struct___seqcount *counted = (void *)mm;
	struct mm_struct___locked *locked = (void *)mm;

	if (bpf_core_field_exists(counted->mm_lock_seq.sequence))
		return counted->mm_lock_seq.sequence;
	if (bpf_core_field_exists(locked->mm_lock_seq))
		return locked->mm_lock_seq;
	return 0;
}

/* Selects the slot of the process, and finds out whether what it holds can be
 * trusted. */
static __always_inline bool select_slot(struct cpu_state *c, struct task_struct *task,
					struct mm_struct *mm)
{
	u64 identity = identity_of(task, mm);
	u32 locks = locks_of(mm);
	struct process_slot *slot;

	/* Addresses of one allocator share low bits; the product mixes them. */
	c->slot = (c->cpu << slot_bits) +
		  (u32)((identity * 0x9e3779b97f4a7c15ULL) >> (64 - slot_bits));
	slot = bpf_map_lookup_elem(&slots, &c->slot);
	if (!slot)
		return false;
	c->mm = (u64)mm;
	c->vdso = (u64)mm->context.vdso;
	c->generation = generation;
	if (slot->identity != identity || slot->generation != c->generation) {
		slot->identity = identity;
		slot->generation = c->generation;
		slot->count = 0;
		slot->next = 0;
	}
	/* Odd: being changed right now (6.14 and later). */
	if (slot->locks != locks || !locks || (locks & 1)) {
		slot->locks = locks;
		slot->epoch++;
	}
	return true;
}

#endif
