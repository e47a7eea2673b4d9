/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stack pointer and program counter of a thread at a signal, from its ucontext_t. 0: this processor
 * is not listed here.
 */
#ifndef TEK_BASE_REGISTERS_H
#define TEK_BASE_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)
#define TEK_STACK_POINTER gregs[REG_RSP]
#define TEK_PROGRAM_COUNTER gregs[REG_RIP]
#elif defined(__i386__)
#define TEK_STACK_POINTER gregs[REG_ESP]
#define TEK_PROGRAM_COUNTER gregs[REG_EIP]
#elif defined(__aarch64__)
#define TEK_STACK_POINTER sp
#define TEK_PROGRAM_COUNTER pc
#elif defined(__arm__)
#define TEK_STACK_POINTER arm_sp
#define TEK_PROGRAM_COUNTER arm_pc
#endif

static inline uintptr_t tek__stack_pointer(const ucontext_t *context)
{
#ifdef TEK_STACK_POINTER
	return (uintptr_t)context->uc_mcontext.TEK_STACK_POINTER;
#else
	(void)context;
	return 0;
#endif
}

static inline uintptr_t tek__program_counter(const ucontext_t *context)
{
#ifdef TEK_PROGRAM_COUNTER
	return (uintptr_t)context->uc_mcontext.TEK_PROGRAM_COUNTER;
#else
	(void)context;
	return 0;
#endif
}

static inline void tek__set_program_counter(ucontext_t *context, uintptr_t counter)
{
#ifdef TEK_PROGRAM_COUNTER
	context->uc_mcontext.TEK_PROGRAM_COUNTER = counter;
#else
	(void)context;
	(void)counter;
#endif
}

#if defined(__arm__)
/*
 * Whether the thread was at an instruction that makes room for what a function saves, usually its
 * first: the function has no frame yet, and returns to where the link register says.
 */
static inline bool tek__enters_function(const ucontext_t *context)
{
	enum { THUMB = 1 << 5 };
	const unsigned char *code = (const unsigned char *)context->uc_mcontext.arm_pc;
	uint32_t word;
	uint16_t half[2];

	if (context->uc_mcontext.arm_cpsr & THUMB) {
		memcpy(half, code, sizeof(half[0]));
		if ((half[0] & 0xfe00) == 0xb400) /* push {...} */
			return true;
		memcpy(half, code, sizeof(half));
		return half[0] == 0xe92d ||                                 /* push.w {...} */
		       (half[0] == 0xf84d && (half[1] & 0x0fff) == 0x0d04); /* push.w {one} */
	}
	memcpy(&word, code, sizeof(word));
	word &= 0x0fffffff;                     /* under any condition */
	return word >> 16 == 0x092d ||          /* push {...} */
	       (word & ~0xf000u) == 0x052d0004; /* push {one} */
}
#endif

#endif
