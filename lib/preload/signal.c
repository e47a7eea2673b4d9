/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that set the action of a signal. Once TEK handles SIGSEGV, they store and report
 * the program's own action for it (stack/action.h); all other calls go to the C library. In fitted
 * threads the functions that set signal masks do so with the program's bit of SIGSEGV, which the
 * kernel does not block (stack/mask.h).
 *
 * Sanitizers come here before anything else in the process is ready: TEK is not started.  Their
 * own code, in a build of libtek with a sanitizer, could not even run.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "base/export.h"
#include "base/next.h"
#include "base/real.h"
#include "stack/action.h"
#include "stack/mask.h"

/* Set at the start; a call before that looks the function up. */
#define REAL(name) (tek__real.name ? (void *)tek__real.name : tek__next_definition(#name))

TEK_EXPORT int sigaction(int number, const struct sigaction *restrict act,
			 struct sigaction *restrict old)
{
	if (number == SIGSEGV && tek__action_is_watched())
		return tek__action_change(act, old);
	int (*real)(int, const struct sigaction *, struct sigaction *) = REAL(sigaction);
	return real(number, act, old);
}

TEK_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	tek__mask_function *real = REAL(pthread_sigmask);
	return tek__mask_change(real, how, set, old);
}

TEK_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	tek__mask_function *real = REAL(sigprocmask);
	return tek__mask_change(real, how, set, old);
}

static sighandler_t set(sighandler_t (*real)(int, sighandler_t), int number, sighandler_t handler)
{
	sighandler_t old = real(number, handler);
	return number == SIGSEGV && tek__action_is_watched() ? tek__action_adopt(old) : old;
}

TEK_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	return set(REAL(signal), number, handler);
}

/* Other names for it, and what it was in other systems. */
sighandler_t bsd_signal(int number, sighandler_t handler);
sighandler_t __sysv_signal(int number, sighandler_t handler);

TEK_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler)
{
	return set(REAL(signal), number, handler);
}

TEK_EXPORT sighandler_t ssignal(int number, sighandler_t handler)
{
	return set(REAL(signal), number, handler);
}

/* The signal() of programs that are compiled for a standard only. */
TEK_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return set(REAL(sysv_signal), number, handler);
}

TEK_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler)
{
	return set(REAL(sysv_signal), number, handler);
}

TEK_EXPORT sighandler_t sigset(int number, sighandler_t handler)
{
	return set(REAL(sigset), number, handler);
}
#endif
