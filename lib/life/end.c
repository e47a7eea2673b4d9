/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/end.h"

#include "base/real.h"
#include "base/sanitizer.h"
#include "life/keys.h"
#include "life/names.h"
#include "mediate/guard.h"
#include "stack/stack.h"
#include "stack/watch.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <limits.h>
#include <sys/prctl.h>

static pthread_key_t key;
static int last_round;

static void end(struct tek_thread *thread)
{
	bool guard_ends = false, watch_ends = false, names_end = false;
	pthread_t guard, watch, names;
	struct tek_stack_use use;
	char name[16] = "";

	bool measured = tek__stack_measure_at_end(thread, &use);
	/* The measurement belongs to the kind of this name. */
	if (measured)
		tek__c_library.prctl(PR_GET_NAME, name);
	enum tek_locked locked = tek__lock_either();
	if (!locked)
		return;
	/* Taking the lock is also what notices a fork. */
	if (tek__thread_known_self() == thread) {
		if (measured && name[0])
			tek__stack_ends_as(thread, name, &use);
		tek__report_summary(thread);
		if (measured)
			tek__stack_measured(thread, &use);
		tek__thread_end(thread);
		if (!tek__threads_left()) {
			guard_ends = tek__guard_let_go(&guard);
			watch_ends = tek__watch_let_go(&watch);
			names_end = tek__names_let_go(&names);
		}
	}
	tek__unlock_either(locked);
	/* The last thread to go runs the program's atexit() functions: this one, none of ours. */
	if (guard_ends)
		pthread_join(guard, NULL);
	if (watch_ends)
		pthread_join(watch, NULL);
	if (names_end)
		pthread_join(names, NULL);
}

/*
 * The C library runs the destructors of all keys in up to
 * PTHREAD_DESTRUCTOR_ITERATIONS rounds, as long as some key has a value.  Ours
 * gives itself a value again as long as another key has one.
 */
static void at_end(void *value)
{
	struct tek_thread *thread = value;
	int cancellation;

	/* Not so in the child of a fork in a destructor: the structure is no longer ours. */
	if (tek__thread_known_self() != thread)
		return;
	if (tek__is_confined()) {
		tek__stack_give_back(thread);
		return;
	}
	if (++thread->end_rounds < last_round && tek__keys_have_values()) {
		pthread_setspecific(key, thread);
		return;
	}
	/* A thread that returns can still be cancelled at any moment, if it wanted that. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	end(thread);
	pthread_setcancelstate(cancellation, NULL);
}

bool tek__end_start(void)
{
	last_round = PTHREAD_DESTRUCTOR_ITERATIONS - tek__sanitizer_of_threads();
	return tek__c_library.pthread_key_create(&key, at_end) == 0;
}

void tek__end_watch(struct tek_thread *thread)
{
	pthread_setspecific(key, thread);
}

void tek__end_forget(void)
{
	pthread_setspecific(key, NULL);
}
