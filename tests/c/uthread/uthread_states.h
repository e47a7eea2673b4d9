/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel keeps for one thread, and a thread changes for itself: it keeps that, a thread
 * that it creates inherits it, and no other thread has it.  A change by the only thread of a
 * program is one for all that it creates later.
 *
 * For the tests of such states: a program has a list of them, and its main() runs the one whose
 * number is its argument.
 */
#ifndef TEK_TESTS_UTHREAD_STATES_H
#define TEK_TESTS_UTHREAD_STATES_H

#include "uthread_posix.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ROUNDS = 25, LATER = 4, OTHER_ID = 65534 };

/* A pair: change it for the caller; what the caller has. */
struct state {
	const char *name;
	bool (*set)(void);
	long (*value)(void);
	bool not_inherited;
	bool of_process; /* for threads without a kernel thread of their own: not tried alone */
};

static const struct state *tried;
static long before, after;
static atomic_int changed, over, wrong_own, wrong_child, wrong_other;

/* Lets others run, in each way in which a thread leaves its kernel thread. */
static inline void yield_to_ready(int round)
{
	if (round % 3 == 0)
		nap(1);
	else if (round % 3 == 1)
		sched_yield();
	else
		for (volatile int i = 0; i < 20000; i++)
			;
}

static inline void *of_child(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != after)
			atomic_fetch_add(&wrong_child, 1);
		yield_to_ready(i);
	}
	return unused;
}

static inline void *change(void *unused)
{
	if (!tried->set()) {
		atomic_store(&changed, -1);
		return unused;
	}
	after = tried->value();
	atomic_store(&changed, 1);
	pthread_t child = start(of_child, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != after)
			atomic_fetch_add(&wrong_own, 1);
		yield_to_ready(i);
	}
	result_of(child);
	return unused;
}

static inline void *stay(void *unused)
{
	for (int i = 0; !atomic_load(&over); i++) {
		if (tried->value() != before)
			atomic_fetch_add(&wrong_other, 1);
		yield_to_ready(i);
	}
	return unused;
}

/* Returns false if it cannot be tried here. */
static inline bool holds(const struct state *state, bool *skipped)
{
	pthread_t rest[2], later[LATER];

	tried = state;
	before = state->value();
	atomic_store(&changed, 0);
	atomic_store(&over, 0);
	atomic_store(&wrong_own, 0);
	atomic_store(&wrong_child, 0);
	atomic_store(&wrong_other, 0);
	for (int i = 0; i < 2; i++)
		rest[i] = start(stay, NULL);
	result_of(start(change, NULL));
	atomic_store(&over, 1);
	for (int i = 0; i < 2; i++)
		result_of(rest[i]);
	/* Kernel threads that have been used again, by threads that had nothing to do with it. */
	for (int i = 0; i < LATER; i++)
		later[i] = start(stay, NULL);
	for (int i = 0; i < LATER; i++)
		result_of(later[i]);
	*skipped = atomic_load(&changed) < 0 || after == before;
	if (*skipped)
		return true;
	const bool right = !atomic_load(&wrong_own) && !atomic_load(&wrong_other) &&
			   (state->not_inherited || !atomic_load(&wrong_child)) &&
			   state->value() == before;
	if (!right)
		print_message("# %s: lost %d times, not inherited %d times, with another thread "
			      "%d times\n",
			      state->name, atomic_load(&wrong_own), atomic_load(&wrong_child),
			      atomic_load(&wrong_other));
	return right;
}

/* The states that a program tries: the state of its tests. */
struct state_list {
	const struct state *states;
	size_t count;
};

static inline void a_thread_keeps_what_it_sets_and_no_other_has_it(void **list)
{
	const struct state_list *all = *list;
	int wrong = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct state *state = &all->states[i];
		bool skipped;
		if (!holds(state, &skipped))
			wrong++;
		if (skipped)
			print_message("# left out here: %s\n", state->name);
	}
	assert_int_equal(wrong, 0);
}

static inline void check(long expected, atomic_int *wrong)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (tried->value() != expected)
			atomic_fetch_add(wrong, 1);
		yield_to_ready(i);
	}
}

static inline void *check_later(void *wrong)
{
	check(tried->not_inherited ? before : after, wrong);
	return NULL;
}

/* In a program of its own. 0: right; 2: it cannot be tried here. */
static inline int run_alone(const struct state *state)
{
	static atomic_int wrong;
	pthread_t threads[LATER];

	tried = state;
	before = state->value();
	nap(2);
	if (!state->set())
		return 2;
	nap(2);
	after = state->value();
	if (after == before)
		return 2;
	for (int i = 0; i < LATER; i++)
		threads[i] = start(check_later, &wrong);
	check(after, &wrong);
	for (int i = 0; i < LATER; i++)
		result_of(threads[i]);
	return atomic_load(&wrong) ? 1 : 0;
}

/* Each state in a program of its own. */
static inline void what_the_only_thread_sets_it_keeps_and_all_later_ones_inherit(void **list)
{
	const struct state_list *all = *list;
	int wrong = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct state *state = &all->states[i];
		char number[24];
		int status = -1;

		if (state->of_process)
			continue;
		snprintf(number, sizeof(number), "%zu", i);
		const pid_t child = fork();
		if (child == 0) {
			execl("/proc/self/exe", program_invocation_short_name, number, NULL);
			_exit(127);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status && WEXITSTATUS(status) != 2) {
			print_message("# %s: status %#x\n", state->name, (unsigned int)status);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

/* Both tests, of this list. */
#define TESTS_OF_STATES(list) \
	cmocka_unit_test_prestate(a_thread_keeps_what_it_sets_and_no_other_has_it, list), \
		cmocka_unit_test_prestate( \
			what_the_only_thread_sets_it_keeps_and_all_later_ones_inherit, list)

/* Until `over`. */
static inline void *compute(void *unused)
{
	while (!atomic_load(&over))
		for (volatile int i = 0; i < 100000; i++)
			;
	return unused;
}

#endif
