/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps with mutexes, read-write locks, condition variables and joins. */
#include "worker.h"

enum { USUAL_LIMIT_US = 1000 };

static bool is_rwlock(int lock)
{
	return lock >= MUTEXES;
}

static bool may_stay_locked(int lock)
{
	return lock == MUTEX_ROBUST || lock == MUTEX_SHARED_ROBUST || lock == MUTEX_FRAGILE;
}

/* Whether a wait without a limit for this lock can be part of no deadlock. */
static bool is_above_all_held(const struct slot *self, int lock)
{
	for (int i = lock; i < LOCKS; i++)
		if (self->held[i] && !(i == lock && lock == MUTEX_RECURSIVE))
			return false;
	return lock != MUTEX_FRAGILE;
}

static void locked(struct slot *self, int lock)
{
	if (self->held[lock]++ == 0)
		self->order[self->order_count++] = (uint8_t)lock;
}

static void unlocked(struct slot *self, int lock)
{
	int left = 0;

	if (--self->held[lock])
		return;
	for (int i = 0; i < self->order_count; i++)
		if (self->order[i] != lock)
			self->order[left++] = self->order[i];
	self->order_count = (uint8_t)left;
}

int unlock_lock(struct slot *self, int lock)
{
	/* First: a thread that is cancelled between the two unlocks nothing twice. */
	unlocked(self, lock);
	return is_rwlock(lock) ? pthread_rwlock_unlock(&locks.rwlocks[lock - MUTEXES])
			       : pthread_mutex_unlock(locks.mutexes[lock]);
}

void unlock_all(struct slot *self, bool ends)
{
	for (int lock = LOCKS - 1; lock >= 0; lock--)
		while (self->held[lock] && !(ends && may_stay_locked(lock)))
			unlock_lock(self, lock);
}

static int lock_mutex(const struct step *step, pthread_mutex_t *mutex, bool limited)
{
	const long us = step->argument ? step->argument : USUAL_LIMIT_US;
	enum op op = step->op;

	if (op == OP_LOCK && limited)
		op = OP_TIMEDLOCK;
	const clockid_t clock = op == OP_CLOCKLOCK ? CLOCK_MONOTONIC : CLOCK_REALTIME;
	const struct timespec time = time_in_us(clock, us);
	switch (op) {
	case OP_LOCK:
		return pthread_mutex_lock(mutex);
	case OP_TRYLOCK:
		return pthread_mutex_trylock(mutex);
	case OP_CLOCKLOCK:
		return pthread_mutex_clocklock(mutex, clock, &time);
	default:
		return pthread_mutex_timedlock(mutex, &time);
	}
}

static int lock_rwlock(const struct step *step, pthread_rwlock_t *lock, bool limited)
{
	const long us = step->argument ? step->argument : USUAL_LIMIT_US;
	const struct timespec time = time_in_us(CLOCK_REALTIME, us);

	switch (step->op) {
	case OP_RDLOCK:
		return limited ? pthread_rwlock_timedrdlock(lock, &time)
			       : pthread_rwlock_rdlock(lock);
	case OP_WRLOCK:
		return limited ? pthread_rwlock_timedwrlock(lock, &time)
			       : pthread_rwlock_wrlock(lock);
	case OP_TIMEDRDLOCK:
		return pthread_rwlock_timedrdlock(lock, &time);
	default:
		return pthread_rwlock_timedwrlock(lock, &time);
	}
}

static int perform_unlock(struct slot *self, const struct step *step)
{
	if (!self->order_count)
		return STEP_LEFT_OUT;
	const int place = step->op == OP_UNLOCK ? self->order_count - 1 : 0;
	self->unlocks = self->order[place];
	step_begins(self);
	return unlock_lock(self, self->unlocks);
}

int perform_lock(struct slot *self, const struct step *step)
{
	const int lock = step_lock(step);
	int result;

	if (step->op == OP_UNLOCK || step->op == OP_UNLOCK_FIRST)
		return perform_unlock(self, step);
	if (self->held[lock] && lock != MUTEX_RECURSIVE && lock != MUTEX_ERRORCHECK)
		return STEP_LEFT_OUT;
	const bool limited = !is_above_all_held(self, lock);
	step_begins(self);
	if (is_rwlock(lock))
		result = lock_rwlock(step, &locks.rwlocks[lock - MUTEXES], limited);
	else
		result = lock_mutex(step, locks.mutexes[lock], limited);
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(locks.mutexes[lock]);
	if (result == 0 || result == EOWNERDEAD)
		locked(self, lock);
	return result;
}

int perform_cond(struct slot *self, const struct step *step)
{
	pthread_cond_t *cond = &locks.conds[step->object];
	const int lock = step_lock(step);

	if (lock < 0) {
		step_begins(self);
		return step->op == OP_SIGNAL ? pthread_cond_signal(cond)
					     : pthread_cond_broadcast(cond);
	}
	/* It locks the mutex again without a limit. */
	for (int i = lock + 1; i < LOCKS; i++)
		if (self->held[i])
			return STEP_LEFT_OUT;
	if (!self->held[lock])
		return STEP_LEFT_OUT;
	const struct timespec time = time_in_us(CLOCK_REALTIME, step->argument);
	step_begins(self);
	int result = step->op == OP_COND_WAIT
			     ? pthread_cond_wait(cond, locks.mutexes[lock])
			     : pthread_cond_timedwait(cond, locks.mutexes[lock], &time);
	if (result == EOWNERDEAD)
		pthread_mutex_consistent(locks.mutexes[lock]);
	return result;
}

/* Takes the right to join a thread. */
static bool claim(struct slot *self, struct slot *other)
{
	uint32_t at_work = STATE_AT_WORK;

	raw_lock(&other->gate);
	bool is_mine = atomic_compare_exchange_strong(&other->state, &at_work, STATE_JOINED);
	raw_unlock(&other->gate);
	if (is_mine)
		self->joins = (int)other->number;
	return is_mine;
}

int perform_join(struct slot *self, const struct step *step)
{
	struct slot *other = &slots[step->object];
	int result;

	if (other->number <= self->number || !claim(self, other))
		return STEP_LEFT_OUT;
	step_begins(self);
	if (self->order_count == 0) {
		result = pthread_join(other->handle, NULL);
	} else {
		const struct timespec time = time_in_us(CLOCK_REALTIME, step->argument);
		result = pthread_timedjoin_np(other->handle, NULL, &time);
	}
	self->joins = -1;
	raw_lock(&other->gate);
	uint32_t joined = STATE_JOINED;
	if (result == 0)
		other->state = STATE_OVER;
	else
		atomic_compare_exchange_strong(&other->state, &joined, STATE_AT_WORK);
	raw_unlock(&other->gate);
	return result;
}
