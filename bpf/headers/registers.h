/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Registers: where they are, by architecture. */
#ifndef TOLLGATE_REGISTERS_H
#define TOLLGATE_REGISTERS_H

#if defined(__TARGET_ARCH_x86)

#define DWARF_BX 3
#define USER_CS_COMPAT 0x23 /* __USER32_CS, arch/x86/include/asm/segment.h */

/* The context of the program allows only whole loads, so cs is volatile. */
#define cs_of(regs) (*(volatile u64 *)&(regs)->cs & 0xffff)
#define in_kernel(regs) ((cs_of(regs) & 3) == 0)
#define is_compat(regs) (cs_of(regs) == USER_CS_COMPAT)

/* Figure 3.36 of the System V ABI for AMD64 numbers the registers. */
#define LOAD_REGISTERS(c, regs)                                                \
	do {                                                                   \
		(c)->general[0] = (regs)->ax;                                  \
		(c)->general[1] = (regs)->dx;                                  \
		(c)->general[2] = (regs)->cx;                                  \
		(c)->general[3] = (regs)->bx;                                  \
		(c)->general[4] = (regs)->si;                                  \
		(c)->general[5] = (regs)->di;                                  \
		(c)->general[6] = (regs)->bp;                                  \
		(c)->general[7] = (regs)->sp;                                  \
		(c)->general[8] = (regs)->r8;                                  \
		(c)->general[9] = (regs)->r9;                                  \
		(c)->general[10] = (regs)->r10;                                \
		(c)->general[11] = (regs)->r11;                                \
		(c)->general[12] = (regs)->r12;                                \
		(c)->general[13] = (regs)->r13;                                \
		(c)->general[14] = (regs)->r14;                                \
		(c)->general[15] = (regs)->r15;                                \
		(c)->pc = (regs)->ip;                                          \
		(c)->sp = (c)->general[7];                                     \
		(c)->fp = (c)->general[6];                                     \
		(c)->bx = (c)->general[3];                                     \
	} while (0)

/*
 * struct rt_sigframe after its return address has been popped is struct
 * ucontext: flags, link and stack take 40 bytes, then struct sigcontext_64
 * begins: r8-r15, di, si, bp, bx, dx, ax, cx, sp, ip.
 */
#define SIGNAL_OFFSET 40
#define SIGNAL_WORDS 17

static __always_inline void load_signal(struct cpu_state *c)
{
	u64 *s = c->saved;

	c->general[8] = s[0];
	c->general[9] = s[1];
	c->general[10] = s[2];
	c->general[11] = s[3];
	c->general[12] = s[4];
	c->general[13] = s[5];
	c->general[14] = s[6];
	c->general[15] = s[7];
	c->general[5] = s[8];
	c->general[4] = s[9];
	c->general[6] = c->fp = s[10];
	c->general[3] = c->bx = s[11];
	c->general[1] = s[12];
	c->general[0] = s[13];
	c->general[2] = s[14];
	c->general[7] = c->sp = s[15];
	c->pc = s[16];
}

#define strip_pointer(address) (address)

#elif defined(__TARGET_ARCH_arm64)

#define PSR_MODE_MASK 0xf
#define PSR_MODE32 0x10

/* The context of the program allows only whole loads, so pstate is volatile. */
#define pstate_of(regs) (*(volatile u64 *)&(regs)->pstate)
#define in_kernel(regs) ((pstate_of(regs) & PSR_MODE_MASK) != 0)
#define is_compat(regs) ((pstate_of(regs) & PSR_MODE32) != 0)

#define LOAD_REGISTERS(c, source)                                              \
	do {                                                                   \
		_Pragma("unroll") for (int i_ = 0; i_ < 31; i_++)(c)           \
			->general[i_] = (source)->regs[i_];                    \
		(c)->general[31] = (source)->sp;                               \
		(c)->pc = (source)->pc;                                        \
		(c)->sp = (c)->general[31];                                    \
		(c)->fp = (c)->general[29];                                    \
		(c)->lr = strip_pointer((c)->general[30]);                     \
		(c)->bx = 0;                                                   \
	} while (0)

/*
 * struct rt_sigframe: siginfo takes 128 bytes; in struct ucontext flags, link,
 * stack, mask and its reserve take 168, padded to 176; struct sigcontext begins
 * with the fault address, then come x0-x30, sp, pc.
 */
#define SIGNAL_OFFSET (128 + 176 + 8)
#define SIGNAL_WORDS 33

/* Pointer authentication signs the bits above the 48 of a user address. */
#define strip_pointer(address) ((address) & ((1ULL << 48) - 1))

static __always_inline void load_signal(struct cpu_state *c)
{
	u64 *s = c->saved;

#pragma unroll
	for (int i = 0; i < 31; i++)
		c->general[i] = s[i];
	c->general[31] = c->sp = s[31];
	c->fp = s[29];
	c->lr = strip_pointer(s[30]);
	c->pc = s[32];
}

#endif
#endif
