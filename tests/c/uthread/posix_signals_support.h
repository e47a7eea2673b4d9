/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A handler of signals that reports what it got. */
#ifndef TESTS_POSIX_SIGNALS_SUPPORT_H
#define TESTS_POSIX_SIGNALS_SUPPORT_H

#include "uthread_posix.h"

#include <signal.h>

static atomic_int handled, last_number, last_value, reached;
static _Atomic(pthread_t) handled_by;
static pthread_t first_thread;
static atomic_bool handled_by_first;

static inline int reset(void **state)
{
	(void)state;
	atomic_store(&handled, 0);
	atomic_store(&reached, 0);
	return 0;
}

static inline void note(int number, siginfo_t *info, void *context)
{
	(void)context;
	atomic_store(&last_number, number);
	atomic_store(&last_value, info->si_code == SI_QUEUE ? info->si_value.sival_int : -1);
	atomic_store(&handled_by, pthread_self());
	if (pthread_equal(first_thread, pthread_self()))
		atomic_store(&handled_by_first, true);
	atomic_fetch_add(&handled, 1);
}

static inline void handle(int number, int flags)
{
	struct sigaction action;
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = note;
	action.sa_flags = SA_SIGINFO | flags;
	assert_int_equal(sigaction(number, &action, NULL), 0);
}

static inline sigset_t set_of(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	return set;
}

static inline void *spin_until_handled(void *argument)
{
	atomic_store(&reached, 1);
	while (!atomic_load(&handled))
		;
	return argument;
}

#endif
