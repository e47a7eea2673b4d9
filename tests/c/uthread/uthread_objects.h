/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For tests of synchronisation objects, by the native API: each body runs as the first thread of
 * engines of all kinds, each in a process of its own.  With one worker and no kernel threads
 * beside, objects use no atomic instructions, so that and several workers are quite different
 * things.
 */
#ifndef UTHREAD_OBJECTS_H
#define UTHREAD_OBJECTS_H

#include "patience.h"
#include "uthread_support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <tek/uthread.h>

static const char *const all_engines[] = {
	"workers=1,preempt=off",           "workers=1,quantum=50us",
	"workers=1,quantum=200us,foreign", "workers=1,quantum=1ms,preempt=klt",
	"workers=3,quantum=200us",         "workers=2,sched=steal,quantum=100us",
};

static inline void in_engine(const char *options, void (*body)(void))
{
	const char *wrong;

	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		limit_to(60);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is given up leaves nobody behind */
		CHECK(tek_uthread_start(options, &wrong) == 0);
		body();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		print_message("# with %s: status %#x\n", options, (unsigned int)status);
	assert_int_equal(status, 0);
}

static inline void in_all_engines(void (*body)(void))
{
	for (size_t i = 0; i < sizeof(all_engines) / sizeof(all_engines[0]); i++)
		in_engine(all_engines[i], body);
}

static inline tek_uthread_t begin(void *(*routine)(void *), void *argument)
{
	tek_uthread_t thread;
	CHECK(tek_uthread_create(&thread, NULL, routine, argument) == 0);
	return thread;
}

static inline void *end_of(tek_uthread_t thread)
{
	void *result;
	CHECK(tek_uthread_join(thread, &result) == 0);
	return result;
}

/* Runs `count` threads, the argument of each is its number, and waits for them. */
static inline void run_threads(unsigned int count, void *(*routine)(void *))
{
	tek_uthread_t threads[count];

	for (unsigned int i = 0; i < count; i++)
		threads[i] = begin(routine, (void *)(uintptr_t)i);
	for (unsigned int i = 0; i < count; i++)
		end_of(threads[i]);
}

/* A kernel thread of the program's own. */
static inline pthread_t begin_kernel_thread(void *(*routine)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, routine, argument) == 0);
	return thread;
}

static inline struct timespec after_ms(long ms)
{
	return tek__timespec_of(tek__now(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000);
}

/* Until it is so, for so long at most. */
#define WAIT_SECONDS_UNTIL(seconds, condition) \
	do { \
		struct timespec limit_ = after_ms((seconds)*1000); \
		while (!(condition)) { \
			CHECK(tek__now(CLOCK_MONOTONIC) < tek__ns_of(&limit_)); \
			tek_uthread_sleep(100000); \
		} \
	} while (0)

#define WAIT_UNTIL(condition) WAIT_SECONDS_UNTIL(10, condition)

/* Work that a compiler cannot leave out. */
static inline void work(unsigned int loops)
{
	for (volatile unsigned int i = 0; i < loops; i++)
		;
}

#endif
