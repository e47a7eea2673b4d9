/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a signal has interrupted, and how to install a handler past what the program's own symbols do. */
#ifndef TEK_UTHREAD_INTERRUPTED_H
#define TEK_UTHREAD_INTERRUPTED_H

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* Signals that are not the program's: the tick, and those of the C library (32 and 33). */
#define TEK__OWN_SIGNALS (1ull << (SIGSTKFLT - 1) | 1ull << 31 | 1ull << 32)

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

/* sigaction(2) of the C library: the symbol may be ours. -1 and errno if it fails. */
static inline int tek__real_sigaction(int number, const struct sigaction *action)
{
	int (*function)(int, const struct sigaction *, struct sigaction *);
	void *found = dlsym(RTLD_NEXT, "sigaction");

	memcpy(&function, &found, sizeof(function));
	return function(number, action, NULL);
}

#endif
