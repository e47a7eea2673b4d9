/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A helper: a thread of TEK's in the program's process. It is not one of the program's threads: it
 * takes no signals, has no slot, and does not exist in the child of a fork. It ends with the last
 * thread that TEK knows, because a process ends with its last thread, and that must be one of the
 * program.
 *
 * It calls turn() again and again, with the lock. turn() returns the time (CLOCK_MONOTONIC) until
 * which the helper sleeps. 0: no sleep, but other threads may take the lock in between. The helper
 * exits when neither has_work() nor any thread is left, and when turn() returns TEK_HELPER_GOES.
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_THREADS_HELPER_H
#define TEK_THREADS_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TEK_HELPER_GOES = 1 };

struct tek_helper {
	const char *name;
	size_t stack_bytes; /* or the default size, if thread-local storage needs more */
	uint64_t (*run_once)(void);
	bool (*has_work)(void); /* although no thread is left; NULL: never */

	bool running;
	pthread_t handle; /* if it is running */
	pid_t tid;        /* likewise */
	atomic_uint wakeups;
	uint64_t sleeps_until_ns; /* CLOCK_MONOTONIC; UINT64_MAX: until it is woken */
};

/*
 * Make it, with a policy and a priority (0 for SCHED_OTHER) of its own: its creator may be
 * time-critical.  Unless it is running, the lock is given up meanwhile (tek__lock_suspend()).
 * Returns what pthread_create(3) does, EAGAIN also if TEK stands down by then; 0 if it is running.
 */
int tek__helper_start(struct tek_helper *helper, int policy, int priority);

/*
 * The same, but the new thread ends before this returns. The function is called with its kernel
 * id, under the lock.
 */
int tek__helper_try(struct tek_helper *helper, int policy, int priority, void (*with)(pid_t));

/* Whether it is the helper's kernel id. */
static inline bool tek__helper_is(const struct tek_helper *helper, pid_t tid)
{
	return helper->running && helper->tid == tid;
}

/* Have a turn now. */
void tek__helper_wake(struct tek_helper *helper);

/*
 * No thread is left that is known.  True: it is ending, join *handle once the lock is
 * released.  False: there is none, or it stays for work.
 */
bool tek__helper_let_go(struct tek_helper *helper, pthread_t *handle);

/* In the child of a fork there is none. */
void tek__helper_forget(struct tek_helper *helper);

#endif
