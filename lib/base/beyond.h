/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a fault means that a thread has run out of its stack. */
#ifndef TEK_BASE_BEYOND_H
#define TEK_BASE_BEYOND_H

#include "base/registers.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

enum {
	TEK_STACK_GUARD_BYTES = 64
				<< 10,  /* so far below a stack an access counts as its overflow */
	TEK_STACK_RED_ZONE_BYTES = 256, /* what code uses below its stack pointer */
	TEK_STACK_FRAME_BYTES = 16 << 20, /* the largest frame that is thought of */
};

/*
 * The access was below the stack, and the stack pointer is there too, or nearly: else a stray
 * pointer happened to point there.
 */
static inline bool tek__is_beyond_stack(uintptr_t low, uintptr_t address, uintptr_t pointer)
{
	if (address >= low)
		return false;
	if (low - address > TEK_STACK_GUARD_BYTES)
		return pointer < low && low - pointer <= TEK_STACK_FRAME_BYTES &&
		       (address >= pointer || pointer - address <= TEK_STACK_RED_ZONE_BYTES);
	if (!pointer)
		return true;
	return pointer < low ? low - pointer < TEK_STACK_FRAME_BYTES
			     : pointer - low < TEK_STACK_GUARD_BYTES;
}

/*
 * The kernel could not put the frame of some signal on the stack, and sent SIGSEGV instead.  It
 * does not tell an address, nor which signal that was.
 */
static inline bool tek__is_frame_refused(const siginfo_t *info, const ucontext_t *context)
{
#if defined(__x86_64__) || defined(__i386__)
	enum { PROTECTION_FAULT = 13 }; /* a wild address, for which the kernel says the same */
	if (context->uc_mcontext.gregs[REG_TRAPNO] == PROTECTION_FAULT)
		return false;
#endif
	return info->si_code == SI_KERNEL && tek__stack_pointer(context);
}

#endif
