/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lock under test, for what holds for every kind of lock (sync/lock.h) and every spin lock of
 * one word (sync/spin.h).  The name of one is the program's argument.  Ordinary pthread programs:
 * Meson runs them with the C library's threads and with libtek-uthread.so.
 */
#ifndef TESTS_SYNC_LOCK_SUBJECT_H
#define TESTS_SYNC_LOCK_SUBJECT_H

#include "sync_crowd.h"
#include "watchdog.h"

#include "sync/lock.h"
#include "sync/spin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { THREADS_MAX = 64, ROUNDS = 2000, MOST_MS = 300 };

/* The kind under test; of a spin lock of one word, these two. */
static struct tek_lock_kind subject;
static const struct tek_spin_kind *word;

static inline int word_lock(struct tek_lock *lock)
{
	word->lock((atomic_uint *)&lock->first);
	return 0;
}

static inline bool word_try(struct tek_lock *lock)
{
	return word->try((atomic_uint *)&lock->first);
}

static inline int word_unlock(struct tek_lock *lock)
{
	word->unlock((atomic_uint *)&lock->first);
	return 0;
}

static struct tek_lock lock;
static struct timespec end_of_rounds;
static long long counter;
static atomic_int inside, phase;
/* Whether who has the lock sleeps now and then, so that those who wait do so for long. */
static bool sleeps_with_it;

/* Returns 1, for the count. */
static inline long have_it(unsigned int random)
{
	expect(atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed) == 0);
	const long long seen = counter;
	for (volatile unsigned int i = 0; i < random % 50; i++)
		;
	if (sleeps_with_it && random % 256 == 0)
		usleep(2000);
	counter = seen + 1;
	atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
	subject.unlock(&lock);
	return 1;
}

/* In all the ways there are; returns how often it has had it, which is once at least. */
static inline void *compete(void *argument)
{
	unsigned int random = (unsigned int)(uintptr_t)argument * 2654435761u;
	long had = 0;

	do {
		random = random * 1103515245 + 12345;
		const unsigned int choice = random >> 16 & 7;
		if (choice == 0) {
			if (subject.try(&lock))
				had += have_it(random >> 20);
		} else if (choice == 1 && subject.lock_until) {
			const clockid_t clock = random & 1u << 19 ? CLOCK_REALTIME
								  : CLOCK_MONOTONIC;
			const struct timespec time = in_ms(clock, 1);
			const int error = subject.lock_until(&lock,
							     (struct tek_until){clock, &time});
			expect(error == 0 || error == ETIMEDOUT);
			if (error == 0)
				had += have_it(random >> 20);
		} else {
			subject.lock(&lock);
			had += have_it(random >> 20);
		}
	} while (had == 0 || (had < ROUNDS && !is_over(&end_of_rounds)));
	return (void *)had;
}

static inline void compete_with(int threads)
{
	pthread_t thread[THREADS_MAX];
	long long had = 0;

	counter = 0;
	end_of_rounds = in_ms(CLOCK_MONOTONIC, MOST_MS);
	for (int i = 0; i < threads; i++)
		thread[i] = start(compete, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < threads; i++)
		had += (long)(intptr_t)result_of(thread[i]);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_int_equal(had, counter);
	assert_true(subject.try(&lock));
	subject.unlock(&lock);
}

#define SKIP_IF(condition, why) \
	do { \
		if (condition) { \
			print_message("# " why "\n"); \
			skip(); \
		} \
	} while (0)

/* Without locks of one word. */
#define NEEDS_TIMES() SKIP_IF(!subject.lock_until, "a pthread_spinlock_t knows no times")
#define NEEDS_NO_OWNER() \
	SKIP_IF(strcmp(subject.name, "pi") == 0, "for the kernel its holder is who locked it")

static inline bool choose(const char *name)
{
	if (strncmp(name, "word-", 5) == 0) {
		for (const struct tek_spin_kind *const *kind = tek_sync__spin_kinds; *kind; kind++)
			if (strcmp((*kind)->name, name + 5) == 0)
				word = *kind;
		subject = (struct tek_lock_kind){
			.name = name, .lock = word_lock, .try = word_try, .unlock = word_unlock};
		return word;
	}
	/* One that changes all the time. */
	if (strcmp(name, "auto-calm") == 0) {
		tek_sync__lock_auto_respin_after = 3;
		name = "auto";
	}
	const struct tek_lock_kind *kind = tek_sync__lock_kind_named(name);
	if (kind)
		subject = *kind;
	return kind;
}

/* Of main(): whether its argument names one. */
static inline bool begin(int argc, char **argv)
{
	if (argc != 2 || !choose(argv[1])) {
		fprintf(stderr, "usage: %s KIND, or word-KIND\n", argv[0]);
		return false;
	}
	start_watchdog();
	return true;
}

#endif
