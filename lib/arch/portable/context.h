/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * See arch/context.h.  This switch is for processors without one of their own. It uses the C
 * library's ucontext.
 *
 * ucontext also switches the mask of signals, by a system call.  arch/context.h promises that masks
 * stay.  So each switch first writes the present mask into the next context, by a second one.
 */
#ifndef TEK_ARCH_PORTABLE_CONTEXT_H
#define TEK_ARCH_PORTABLE_CONTEXT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

struct tek_context {
	ucontext_t registers;
};

/* It begins with the mask in force. No other thread reads a context that is about to run. */
static inline ucontext_t *tek__context_prepare(const struct tek_context *to)
{
	ucontext_t *next = (ucontext_t *)&to->registers;

	/* The kernel's part of the mask is what counts, and all that it writes (64 signals). */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &next->uc_sigmask, 8);
	return next;
}

static inline void tek__context_switch(struct tek_context *from, const struct tek_context *to)
{
	swapcontext(&from->registers, tek__context_prepare(to));
}

_Noreturn static inline void tek__context_go(const struct tek_context *to)
{
	setcontext(tek__context_prepare(to));
	__builtin_trap();
}

static inline int tek__context_call(int (*function)(void))
{
	return function();
}

/* Arguments of makecontext(3) are ints: each address comes as two halves. */
static inline void tek__context_enter(unsigned int entry_high, unsigned int entry_low,
				      unsigned int high, unsigned int low)
{
	tek_context_fn *entry = (tek_context_fn *)(uintptr_t)((uint64_t)entry_high << 32 |
							      entry_low);

	tek__context_go(entry((void *)(uintptr_t)((uint64_t)high << 32 | low)));
}

static inline void tek__context_make(struct tek_context *context, void *top, tek_context_fn *entry,
				     void *argument)
{
	const uint64_t function = (uintptr_t)entry, value = (uintptr_t)argument;

	getcontext(&context->registers);
	/* Only the end of the stack counts. */
	context->registers.uc_stack.ss_size = 4096;
	context->registers.uc_stack.ss_sp = (char *)top - context->registers.uc_stack.ss_size;
	context->registers.uc_link = NULL;
	makecontext(&context->registers, (void (*)(void))tek__context_enter, 4,
		    (unsigned int)(function >> 32), (unsigned int)function,
		    (unsigned int)(value >> 32), (unsigned int)value);
}

#endif
