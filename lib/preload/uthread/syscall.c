/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbol syscall(2): a program that makes a system call by number gets what the C library's
 * function of that name does here.
 */
#include "uthread/posix/state.h"

#include "base/export.h"
#include "base/next.h"
#include "base/user_memory.h"
#include "uthread/bound.h"
#include "uthread/posix/blocked.h"
#include "uthread/posix/blocking.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/futex.h"
#include "uthread/posix/signal.h"
#include "uthread/worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_dup2
#define SYS_DUP2 SYS_dup2
#else
#define SYS_DUP2 (-1) /* only older processors have it */
#endif

#undef syscall /* system_call.c */
long syscall(long number, ...);

static long make(const struct tek_state_call *call)
{
	const unsigned long *argument = call->argument;

	return TEK_REAL(syscall)(call->number, argument[0], argument[1], argument[2], argument[3],
				 argument[4], argument[5]);
}

/*
 * The engine has the mask of each thread.  The only thread of a process may block the engine's own
 * signals, too: no other one is to be switched to.
 */
static long change_mask(const struct tek_state_call *call)
{
	const unsigned long *argument = call->argument;
	const uint64_t *set = (const uint64_t *)argument[1];
	uint64_t *old = (uint64_t *)argument[2];
	sigset_t wide, wide_old;

	if (argument[3] != sizeof(*set)) {
		errno = EINVAL;
		return -1;
	}
	if (set)
		tek_ut__signals_to(&wide, *set);
	const int error = tek_ut__signal_mask((int)argument[0], set ? &wide : NULL,
					      old ? &wide_old : NULL);
	if (error) {
		errno = error;
		return -1;
	}
	if (old)
		*old = tek_ut__signals_of(&wide_old);
	if (set && atomic_load(&tek_ut__posix_threads) == 1)
		tek_ut__signal_mask_with_own((int)argument[0], *set);
	return 0;
}

/* Whether the masks of rt_sigprocmask(2) can be read: both, if there are two. */
static bool has_masks(const unsigned long *argument)
{
	return (!argument[1] || tek__user_can_read((const void *)argument[1], sizeof(uint64_t))) &&
	       (!argument[2] || tek__user_can_read((const void *)argument[2], sizeof(uint64_t)));
}

static long make_timer(struct tek_state_call *call)
{
	struct sigevent own;

	if (!tek_ut__state_begin_timer(call, &own))
		return -1;
	const long result = make(call);
	tek_ut__state_end(call);
	return result;
}

static long make_with_state(struct tek_state_call *call)
{
	if (!tek_ut__state_begin(call))
		return -1;
	const long result = make(call);
	tek_ut__state_end(call);
	return result;
}

/* By a user-level thread. */
static long make_for_thread(struct tek_state_call *call)
{
	const unsigned long *argument = call->argument;

	switch (call->number) {
	case SYS_futex:
		return tek_ut__futex_waits(argument) ? tek_ut__futex_wait(argument, make, call)
						     : make_with_state(call);
	case SYS_prctl:
		if (argument[0] == PR_SET_NAME || argument[0] == PR_GET_NAME)
			return prctl((int)argument[0], argument[1]);
		return make_with_state(call);
	case SYS_rt_sigprocmask:
		return has_masks(argument) ? change_mask(call) : tek_ut__fail(EFAULT);
	case SYS_timer_create:
		return make_timer(call);
	default:
		return make_with_state(call);
	}
}

/* Whether the call may close descriptors of the engine, or those that a thread waits for. */
static bool closes_descriptors(long number)
{
	return number == SYS_close || number == SYS_close_range || number == SYS_dup3 ||
	       number == SYS_DUP2;
}

static long close_descriptors(const struct tek_state_call *call)
{
	const unsigned long *argument = call->argument;
	const int first = (int)argument[0], second = (int)argument[1], flags = (int)argument[2];

	switch (call->number) {
	case SYS_close:
		return tek_ut__close(first);
	case SYS_close_range:
		return tek_ut__close_range((unsigned int)first, (unsigned int)second, flags);
	case SYS_dup3:
		return tek_ut__dup3(first, second, flags);
	default:
		return tek_ut__dup2(first, second);
	}
}

TEK_EXPORT __attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	struct tek_state_call call = {.number = number};
	va_list list;

	/* As the C library does: the kernel takes six words, used or not. */
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		call.argument[i] = va_arg(list, unsigned long);
	va_end(list);
	if (closes_descriptors(number))
		return close_descriptors(&call);
	/* Most calls are none of ours.  In the child of vfork(2) the storage is its parent's. */
	if (!(number == SYS_rt_sigprocmask || tek_ut__state_concerns(number)) ||
	    !tek_ut__is_uthread() || !tek_ut__here_self()->posix || !tek_ut__bound_is_own_carrier())
		return make(&call);
	return make_for_thread(&call);
}
