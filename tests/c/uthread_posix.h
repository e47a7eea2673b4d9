/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For tests of threads of pthread programs: ordinary programs, which Meson runs with the C
 * library's threads and with libtek-uthread.so before it, under several models.  All of it has to
 * hold for each.
 */
#ifndef TESTS_UTHREAD_POSIX_H
#define TESTS_UTHREAD_POSIX_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Whether threads are user-level ones here. */
static inline bool on_user_level(void)
{
	const char *preloaded = getenv("LD_PRELOAD");
	return preloaded && strstr(preloaded, "libtek-uthread");
}

/* Whether a thread that computes is never interrupted. */
static inline bool is_cooperative(void)
{
	const char *options = getenv("TEK_UTHREAD");
	return on_user_level() && options && strstr(options, "preempt=off");
}

#define NEEDS_PREEMPTION() \
	do { \
		if (is_cooperative()) { \
			print_message("# needs preemption\n"); \
			skip(); \
		} \
	} while (0)

static inline void nap(long ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

/* So far from now on, by that clock. */
static inline struct timespec in_us(clockid_t clock, long us)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_sec += us / 1000000;
	time.tv_nsec += us % 1000000 * 1000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

static inline struct timespec in_ms(clockid_t clock, long ms)
{
	return in_us(clock, ms * 1000);
}

/* Whether that time of CLOCK_MONOTONIC is reached. */
static inline bool is_over(const struct timespec *time)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > time->tv_sec ||
	       (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec);
}

/* Until it is so much, for 10 seconds at most. */
static inline bool becomes(atomic_int *value, int wanted)
{
	for (int i = 0; i < 10000; i++) {
		if (atomic_load(value) == wanted)
			return true;
		nap(1);
	}
	return false;
}

static inline void *wait_for_flag(void *argument)
{
	while (!atomic_load((atomic_int *)argument))
		nap(1);
	return argument;
}

static inline pthread_t start(void *(*routine)(void *), void *argument)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, routine, argument), 0);
	return thread;
}

static inline void *result_of(pthread_t thread)
{
	void *result = NULL;
	assert_int_equal(pthread_join(thread, &result), 0);
	return result;
}

#endif
