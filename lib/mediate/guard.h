/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The budget guard: TEK's thread `tek-guard`, whose priority is above all Fast threads of the
 * process. It sends back threads that use up their budget, ends timed stays, and lifts threads at
 * the end of a timed wait (inherit/cond.h).
 *
 * The first Fast thread makes TEK create it. It sleeps while no thread is Fast. It ends with the
 * last thread that TEK knows: a process ends with its last thread, and that must be one of the
 * program.
 *
 * A process with one thread, Fast by a rule only, has timers of that thread in its place (lone.h):
 * a second thread would disturb some programs. Its guard comes before its second thread, or when
 * the first one gets a deadline. Timers send a thread back after it used its budget within a
 * window; they detect any other use of more than the budget after at most twice the budget.
 *
 * All functions need the lock (threads/process.h) unless noted otherwise.
 */
#ifndef TEK_MEDIATE_GUARD_H
#define TEK_MEDIATE_GUARD_H

#include "threads/thread.h"

/*
 * Makes sure that the budget guard runs. Its creation is also the proof that this process may use
 * real-time policies. The lock is released meanwhile, as by tek__helper_start(). Returns 0, EPERM
 * or EAGAIN.
 */
int tek__guard_start(void);

/* The same for a Fast thread; for a process's only one, timers may be enough. */
int tek__guard_start_for(const struct tek_thread *thread);

/* Whether timers are in the guard's place. Needs no lock. */
bool tek__guard_is_lone(void);

/* Whether it is the guard's kernel id. */
bool tek__guard_is(pid_t tid);

/*
 * The budget of a thread: its process's, or its own. The former applies to any window. The latter
 * applies to consecutive windows, because their length may differ. Both are sampled equally often.
 */
struct tek_budget tek__guard_budget(const struct tek_thread *thread);

/* Give a thread a budget of its own; NULL: that of its process again. */
void tek__guard_set_budget(struct tek_thread *thread, const struct tek_budget *budget);

/* CPU time that a thread has used while Fast since ever. */
uint64_t tek__guard_fast_cpu(const struct tek_thread *thread);

/* A thread has become Fast. */
void tek__guard_enter(struct tek_thread *thread);

/* A thread is about to leave. */
void tek__guard_leave(struct tek_thread *thread);

/* A timed stay ends then (CLOCK_MONOTONIC). */
void tek__guard_deadline(uint64_t deadline_ns);

/* tek__config's budget or window has changed. */
void tek__guard_budget_changed(void);

/*
 * No thread is left that is known.  True: the guard is ending, join *handle once
 * the lock is released.  False: there is none, or it stays for a Fast thread.
 */
bool tek__guard_let_go(pthread_t *handle);

/* In the child of a fork there is none. */
void tek__guard_forget(void);

#endif
