/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that no library sees: the harness itself must not wait where TEK lifts threads, and
 * must not change what it observes.
 */
#ifndef TEK_TORTURE_RAW_H
#define TEK_TORTURE_RAW_H

#include "history.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static inline void raw_sleep_us(long us)
{
	const struct timespec time = {us / 1000000, us % 1000000 * 1000};

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
}

static inline pid_t raw_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Waits until *word is not `value`, or for a time; between processes, too. */
static inline void raw_wait(_Atomic uint32_t *word, uint32_t value, long ms)
{
	const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	if (atomic_load(word) == value)
		syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0);
}

static inline void raw_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A mutex that TEK does not know: 0 free, 1 locked, 2 there are waiters. */
static inline void raw_lock(_Atomic uint32_t *word)
{
	uint32_t was = 0;

	if (atomic_compare_exchange_strong(word, &was, 1))
		return;
	while (atomic_exchange(word, 2))
		raw_wait(word, 2, 1000);
}

static inline void raw_unlock(_Atomic uint32_t *word)
{
	if (atomic_exchange(word, 0) == 2)
		raw_wake(word);
}

/* sched_setattr(2), as far as it is needed. */
struct raw_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* Returns false if there is no such thread. */
static inline bool raw_scheduling(pid_t tid, struct scheduling *scheduling)
{
	struct raw_attr attr = {.size = sizeof(attr)};
	/* The raw call returns 20 less the nice value. */
	const long nice = syscall(SYS_getpriority, PRIO_PROCESS, tid);

	if (nice < 0 || syscall(SYS_sched_getattr, tid, &attr, sizeof(attr), 0))
		return false;
	*scheduling = (struct scheduling){.policy = (uint8_t)attr.policy,
					  .priority = (uint8_t)attr.priority,
					  .nice = (int8_t)(20 - nice),
					  .reset_on_fork = attr.flags & 1};
	return true;
}

/* A round that takes long has more samples than there is room for. */
static inline void record(struct shared *shared, struct event event)
{
	if (event.kind == EVENT_SAMPLE && shared->count >= MOST_SAMPLES)
		return;
	const uint32_t place = atomic_fetch_add(&shared->count, 1);
	if (event.kind != EVENT_SAMPLE)
		atomic_fetch_add(&shared->progress, 1);
	if (place >= MOST_EVENTS)
		return;
	event.ns = now_ns();
	shared->events[place] = event;
}

#endif
