/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The state of a mutex, and its waiters. */
#include "uthread/mutex.h"
#include "uthread/worker.h"

#include <errno.h>
#include <stddef.h>

/* Spin iterations on the mutex before a thread waits: about as long as switching takes. */
#define SPINS 20
/* If there is no other thread to run here: the cost of idling. */
#define SPINS_ALONE 100

static struct tek_waiters *waiters_of(struct tek_mutex *mutex)
{
	return mutex->kind & TEK_MUTEX_SPECIAL ? &mutex->more->waiters : &mutex->waiters;
}

static struct tek_mutex_waiter *first_of(const struct tek_waiters *waiters)
{
	return (struct tek_mutex_waiter *)waiters->first;
}

static unsigned int waiters_bit(const struct tek_waiters *waiters)
{
	return waiters->first ? TEK_MUTEX_WAITERS : 0;
}

bool tek_ut__mutex_barge(struct tek_mutex *mutex)
{
	const unsigned int taken = TEK_MUTEX_LOCKED | TEK_MUTEX_GUARD;
	const bool in = tek_ut__come_in();

	do {
		if (in ? tek_ut__set_lowest_quickly(&mutex->state, TEK_MUTEX_GUARD)
		       : tek_ut__set_lowest_among_several(&mutex->state, TEK_MUTEX_GUARD))
			return true;
	} while (!(atomic_load_explicit(&mutex->state, memory_order_relaxed) & taken));
	return false;
}

/* Its owner may be on another CPU, and about to unlock it. */
static bool spin(struct tek_mutex *mutex, struct tek_worker *worker)
{
	unsigned int most = worker && tek_ut__any_ready(worker) ? SPINS : SPINS_ALONE;

	for (unsigned int i = 0; i < most; i++) {
		unsigned int state = atomic_load_explicit(&mutex->state, memory_order_relaxed);
		/* Other threads have given up before. */
		if (state & TEK_MUTEX_WAITERS)
			return false;
		if (!(state & TEK_MUTEX_LOCKED) && tek_ut__mutex_barge(mutex))
			return true;
		tek_ut__relax();
	}
	return false;
}

/* A waiter that was woken in vain comes before all other ones, else by priority. */
static void add(struct tek_waiters *waiters, struct tek_mutex_waiter *waiter)
{
	struct tek_waiter *wait = &waiter->wait;

	if (!waiter->vain || !waiters->first) {
		tek_ut__waiters_add_by_priority(waiters, wait);
		return;
	}
	wait->previous = NULL;
	wait->next = waiters->first;
	waiters->first->previous = wait;
	waiters->first = wait;
	wait->listed = true;
}

static enum tek_wake wait_once(struct tek_mutex_waiter *waiter, const struct timespec *deadline,
			       bool interruptible)
{
	return interruptible ? tek_ut__wait_interruptible(&waiter->wait, deadline, TEK_WAITS_MUTEX)
			     : tek_ut__wait_deferred(&waiter->wait, deadline, TEK_WAITS_MUTEX);
}

/* Deferred. */
static int queue(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		 const struct timespec *deadline, bool interruptible)
{
	struct tek_waiters *waiters = waiters_of(mutex);

	for (;;) {
		unsigned int state = tek_ut__guard_lock(&mutex->state, TEK_MUTEX_GUARD);
		if (waiter->woken) {
			waiter->woken = false;
			state &= ~TEK_MUTEX_WOKEN;
		}
		if (!(state & TEK_MUTEX_LOCKED)) {
			tek_ut__guard_unlock(&mutex->state, state | TEK_MUTEX_LOCKED);
			return 0;
		}
		tek_ut__waiter_init(&waiter->wait);
		waiter->owns = false;
		add(waiters, waiter);
		tek_ut__guard_unlock(&mutex->state, state | TEK_MUTEX_WAITERS);

		enum tek_wake how = wait_once(waiter, deadline, interruptible);
		if (how != TEK_WOKEN) {
			tek_ut__mutex_remove_waiter(mutex, waiter);
			return how == TEK_TIMED_OUT ? ETIMEDOUT : EINTR;
		}
		if (waiter->owns)
			return 0;
		waiter->woken = true;
		waiter->vain++;
	}
}

int tek_ut__mutex_take(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter,
		       struct tek_until until, bool interruptible)
{
	const struct timespec *deadline;
	struct timespec room;
	int error = tek__until_deadline(until, &room, &deadline);

	if (error)
		return error;
	struct tek_worker *worker = tek_ut__enter();
	if (waiter->woken || !tek_ut__parallel() || !spin(mutex, worker))
		error = queue(mutex, waiter, deadline, interruptible);
	tek_ut__leave();
	return error;
}

/*
 * The new state without the guard. The woken waiter may run at once, elsewhere, but touches the
 * mutex only under the guard, which the caller holds until the state is stored.
 */
static unsigned int wake_one(struct tek_waiters *waiters)
{
	struct tek_mutex_waiter *waiter;

	while ((waiter = first_of(waiters))) {
		bool hand_over = waiter->vain >= TEK_MUTEX_PATIENCE;
		tek_ut__waiters_remove(waiters, &waiter->wait);
		waiter->owns = hand_over;
		if (tek_ut__wake(&waiter->wait, TEK_WOKEN))
			return (hand_over ? TEK_MUTEX_LOCKED : TEK_MUTEX_WOKEN) |
			       waiters_bit(waiters);
	}
	return 0;
}

void tek_ut__mutex_give(struct tek_mutex *mutex)
{
	if (tek_ut__mutex_let_go(mutex))
		return;
	tek_ut__enter();
	unsigned int state = tek_ut__guard_lock(&mutex->state, TEK_MUTEX_GUARD);
	if (state & TEK_MUTEX_WOKEN)
		state &= ~TEK_MUTEX_LOCKED;
	else
		state = wake_one(waiters_of(mutex));
	tek_ut__guard_unlock(&mutex->state, state);
	tek_ut__leave();
}

bool tek_ut__mutex_add_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter)
{
	unsigned int state = tek_ut__guard_lock(&mutex->state, TEK_MUTEX_GUARD);
	bool locked = state & TEK_MUTEX_LOCKED;

	if (locked) {
		tek_ut__waiters_add_by_priority(waiters_of(mutex), &waiter->wait);
		state |= TEK_MUTEX_WAITERS;
	}
	tek_ut__guard_unlock(&mutex->state, state);
	return locked;
}

void tek_ut__mutex_remove_waiter(struct tek_mutex *mutex, struct tek_mutex_waiter *waiter)
{
	struct tek_waiters *waiters = waiters_of(mutex);
	unsigned int state = tek_ut__guard_lock(&mutex->state, TEK_MUTEX_GUARD);

	tek_ut__waiters_remove(waiters, &waiter->wait);
	waiter->owns = false; /* if an unlock tried to wake it, too late */
	tek_ut__guard_unlock(&mutex->state, (state & ~TEK_MUTEX_WAITERS) | waiters_bit(waiters));
}
