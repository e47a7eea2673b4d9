/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The code that a signal has interrupted. */
#ifndef TEK_UTHREAD_INTERRUPTED_H
#define TEK_UTHREAD_INTERRUPTED_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

static inline uintptr_t tek_ut__interrupted_at(const ucontext_t *context)
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

/* The instructions that make a system call, and their results. */
#if defined(__x86_64__)

static inline bool tek_ut__is_call(uintptr_t at)
{
	const unsigned char *code = (const unsigned char *)at;
	return code[0] == 0x0f && code[1] == 0x05;
}

enum { TEK_CALL_BYTES = 2 };

static inline long tek_ut__interrupted_result(const ucontext_t *context)
{
	return context->uc_mcontext.gregs[REG_RAX];
}

/* The number of the system call that it is at. */
static inline long tek_ut__interrupted_number(const ucontext_t *context)
{
	return context->uc_mcontext.gregs[REG_RAX];
}

#elif defined(__aarch64__)

static inline bool tek_ut__is_call(uintptr_t at)
{
	return *(const uint32_t *)at == 0xd4000001;
}

enum { TEK_CALL_BYTES = 4 };

static inline long tek_ut__interrupted_result(const ucontext_t *context)
{
	return (long)context->uc_mcontext.regs[0];
}

static inline long tek_ut__interrupted_number(const ucontext_t *context)
{
	return (long)context->uc_mcontext.regs[8];
}

#else

static inline bool tek_ut__is_call(uintptr_t at)
{
	(void)at;
	return false;
}

enum { TEK_CALL_BYTES = 1 };

static inline long tek_ut__interrupted_result(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static inline long tek_ut__interrupted_number(const ucontext_t *context)
{
	(void)context;
	return -1;
}

#endif

/*
 * The instruction of a system call that was interrupted before it had any effect: it is about to be
 * begun, for the first time or again, or has failed with EINTR. 0: none, or not known on this
 * architecture.
 */
static inline uintptr_t tek_ut__interrupted_call(const ucontext_t *context)
{
	const uintptr_t at = tek_ut__interrupted_at(context);

	if (tek_ut__is_call(at))
		return at;
	if (tek_ut__interrupted_result(context) == -EINTR && tek_ut__is_call(at - TEK_CALL_BYTES))
		return at - TEK_CALL_BYTES;
	return 0;
}

/*
 * If the kernel is about to restart an interrupted system call, because our handler has SA_RESTART:
 * the call fails with EINTR, because the program's handler has not. Without support it is
 * restarted.
 */
static inline void tek_ut__interrupted_fail(ucontext_t *context)
{
#if defined(__x86_64__)
	if (!tek_ut__is_call(tek_ut__interrupted_at(context)))
		return;
	context->uc_mcontext.gregs[REG_RIP] += TEK_CALL_BYTES;
	context->uc_mcontext.gregs[REG_RAX] = -EINTR;
#elif defined(__aarch64__)
	if (!tek_ut__is_call(tek_ut__interrupted_at(context)))
		return;
	context->uc_mcontext.pc += TEK_CALL_BYTES;
	context->uc_mcontext.regs[0] = (uint64_t)-EINTR;
#else
	(void)context;
#endif
}

#endif
