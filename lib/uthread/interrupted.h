/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a signal has interrupted, and which signals programs have nothing to do with. */
#ifndef TEK_UTHREAD_INTERRUPTED_H
#define TEK_UTHREAD_INTERRUPTED_H

#include "uthread/tick.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

/* Signals that are not the program's: those of the C library (32 and 33), and the tick, which mostly is one of them. */
#define TEK__OWN_SIGNALS (TEK_TICK_BIT | 1ull << 31 | 1ull << 32)

static inline uintptr_t tek__interrupted_at(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#elif defined(__arm__)
	return (uintptr_t)context->uc_mcontext.arm_pc;
#else
#error "where does this processor keep the address?"
#endif
}

/*
 * If a system call was interrupted that the kernel is about to begin again, because our handler says so: it fails with
 * EINTR, because the program's does not.  Where this is not known it is begun again.
 */
static inline void tek__interrupted_fail(ucontext_t *context)
{
#if defined(__x86_64__)
	const unsigned char *code = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
	if (code[0] != 0x0f || code[1] != 0x05)
		return;
	context->uc_mcontext.gregs[REG_RIP] += 2;
	context->uc_mcontext.gregs[REG_RAX] = -EINTR;
#elif defined(__aarch64__)
	const uint32_t *code = (const uint32_t *)context->uc_mcontext.pc;
	if (*code != 0xd4000001)
		return;
	context->uc_mcontext.pc += sizeof(*code);
	context->uc_mcontext.regs[0] = (uint64_t)-EINTR;
#else
	(void)context;
#endif
}

#endif
