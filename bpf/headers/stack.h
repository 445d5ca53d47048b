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

#endif
