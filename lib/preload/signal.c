/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two usual ways to set the action for a signal: of SIGSEGV the program sees its own once TEK
 * has a handler there (stack/action.h).  Until then, and for every other signal, these are the C
 * library's.
 *
 * Sanitizers come here before anything else in the process is ready: TEK is not started.  Their
 * own code, in a build of libtek with a sanitizer, could not even run.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include "preload/real.h"
#include "stack/action.h"

#include <dlfcn.h>

/* Found at the start; who comes before that looks it up. */
#define REAL(name) (tek__real.name ? (void *)tek__real.name : dlsym(RTLD_NEXT, #name))

TEK_EXPORT int sigaction(int number, const struct sigaction *restrict act,
			 struct sigaction *restrict old)
{
	if (number == SIGSEGV && tek__action_is_watched())
		return tek__action_change(act, old);
	int (*real)(int, const struct sigaction *, struct sigaction *) = REAL(sigaction);
	return real(number, act, old);
}

TEK_EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	sighandler_t (*real)(int, sighandler_t) = REAL(signal);
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (number != SIGSEGV || handler == SIG_ERR || !tek__action_is_watched())
		return real(number, handler);
	sigaddset(&act.sa_mask, SIGSEGV); /* as the C library does */
	return tek__action_change(&act, &old) ? SIG_ERR : old.sa_handler;
}
#endif
