/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A run queue that is open at both ends, and from which a thread can be taken out of the middle:
 * all in O(1), by struct tek_sched_state.next and .previous.  Zero is empty.
 *
 * The first one's `previous` is the last one, so `previous` is NULL exactly for a thread that is in
 * no deque. It has no lock: its user has one.
 */
#ifndef TEK_UTHREAD_DEQUE_H
#define TEK_UTHREAD_DEQUE_H

#include "uthread/thread.h"

#include <stdbool.h>
#include <stddef.h>

struct tek_deque {
	struct tek_uthread *first;
};

static inline bool tek_ut__in_deque(const struct tek_uthread *thread)
{
	return thread->sched.previous != NULL;
}

static inline struct tek_uthread *tek_ut__deque_last(const struct tek_deque *deque)
{
	return deque->first ? deque->first->sched.previous : NULL;
}

static inline void tek_ut__deque_add_last(struct tek_deque *deque, struct tek_uthread *thread)
{
	struct tek_uthread *first = deque->first;

	thread->sched.next = NULL;
	if (first) {
		thread->sched.previous = first->sched.previous;
		first->sched.previous->sched.next = thread;
		first->sched.previous = thread;
	} else {
		thread->sched.previous = thread;
		deque->first = thread;
	}
}

static inline void tek_ut__deque_add_first(struct tek_deque *deque, struct tek_uthread *thread)
{
	struct tek_uthread *first = deque->first;

	thread->sched.next = first;
	if (first) {
		thread->sched.previous = first->sched.previous;
		first->sched.previous = thread;
	} else {
		thread->sched.previous = thread;
	}
	deque->first = thread;
}

/* `thread` is in this deque. */
static inline void tek_ut__deque_remove(struct tek_deque *deque, struct tek_uthread *thread)
{
	struct tek_uthread *next = thread->sched.next, *previous = thread->sched.previous;

	if (thread == deque->first)
		deque->first = next;
	else
		previous->sched.next = next;
	if (next)
		next->sched.previous = previous;
	else if (deque->first) /* it was the last one */
		deque->first->sched.previous = previous;
	thread->sched.previous = NULL;
}

static inline struct tek_uthread *tek_ut__deque_take_first(struct tek_deque *deque)
{
	struct tek_uthread *thread = deque->first;
	if (thread)
		tek_ut__deque_remove(deque, thread);
	return thread;
}

static inline struct tek_uthread *tek_ut__deque_take_last(struct tek_deque *deque)
{
	struct tek_uthread *thread = tek_ut__deque_last(deque);
	if (thread)
		tek_ut__deque_remove(deque, thread);
	return thread;
}

#endif
