/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For tests of what threads wait for each other by (lib/sync): threads, and signals that interrupt
 * them.  The same tests run on the C library's threads, and with libtek-uthread.so on user-level
 * ones, whose engine is found by its name.
 */
#ifndef TESTS_SYNC_CROWD_H
#define TESTS_SYNC_CROWD_H

#include "uthread_posix.h"

#include "sync/waiting.h"

#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#define CROWD_MOST 64

extern const struct tek_sync_host tek_sync_host __attribute__((weak));

/* A group's setup. */
static inline int find_host(void **state)
{
	(void)state;
	tek_sync__host = &tek_sync_host;
	if (on_user_level() && !tek_sync__host)
		print_message("# libtek-uthread.so has no tek_sync_host\n");
	return on_user_level() && !tek_sync__host ? -1 : 0;
}

/* Each gets its number. */
static inline void run_crowd(unsigned int count, void *(*routine)(void *))
{
	pthread_t threads[CROWD_MOST];

	for (uintptr_t i = 0; i < count; i++)
		threads[i] = start(routine, (void *)i);
	for (unsigned int i = 0; i < count; i++)
		result_of(threads[i]);
}

static atomic_int wrong;

/* For threads, which cannot leave a test. */
static inline void expect(bool condition)
{
	if (!condition)
		atomic_fetch_add(&wrong, 1);
}

static inline unsigned int next_random(unsigned int *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 16;
}

static inline void do_nothing(int signal)
{
	(void)signal;
}

/* Every millisecond one in whatever thread, until it is stopped. */
static inline void begin_signals(void)
{
	const struct sigaction action = {.sa_handler = do_nothing, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, 1000}, {0, 1000}};

	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static inline void end_signals(void)
{
	const struct itimerval never = {{0, 0}, {0, 0}};

	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

#endif
