/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of the tortured process, one a slot.
 *
 * A thread performs the steps of its slot, then sleeps until the round is over. A thread that
 * another one joins ends instead. Whatever the steps are, no round can deadlock:
 *
 * - A thread waits without a limit only for a lock whose number is above those of all locks that
 *   it holds. Else the wait has a limit.
 * - A thread joins without a limit only while it holds no lock, and only slots above its own.
 * - The main thread wakes all waits for condition variables again and again.
 * - A thread that ends keeps robust and fragile locks only. A wait for a fragile one has a limit.
 * - A thread that holds a gate waits for a second one only if that slot has no thread yet.
 */
#ifndef TEK_TORTURE_WORKER_H
#define TEK_TORTURE_WORKER_H

#include "raw.h"

#include <pthread.h>

enum state {
	STATE_NONE,    /* has no thread yet */
	STATE_AT_WORK, /* its handle is valid, as in the next three states */
	STATE_JOINED,  /* a thread joins it */
	STATE_PARKED,
	STATE_GONE, /* its thread has performed its last step, or was cancelled */
	STATE_OVER, /* and has been joined */
};

struct slot {
	unsigned int number;
	pthread_t handle;
	pid_t tid;
	_Atomic uint32_t state;
	/* Held by a thread that acts on this one, or creates a child with its scheduling. */
	_Atomic uint32_t gate;
	uint16_t steps[MOST_STEPS];
	unsigned int step_count;
	uint16_t step; /* which is performed */
	bool is_in_step;
	uint8_t unlocks; /* the lock that the step unlocks */
	bool holds_gate; /* its own */
	int joins;       /* the slot, -1: none */
	int held[LOCKS]; /* how often */
	uint8_t order[LOCKS], order_count;
	unsigned int entered; /* calls of tek_critical_enter() */
};

struct locks {
	pthread_mutex_t *mutexes[MUTEXES];
	pthread_mutex_t own[MUTEXES];
	pthread_rwlock_t rwlocks[RWLOCKS];
	pthread_cond_t conds[CONDS];
};

extern struct shared *shared;
extern struct slot slots[SLOTS];
extern struct locks locks;
extern _Atomic uint32_t threads_at_work; /* neither parked nor gone */
extern _Atomic uint32_t is_round_over;   /* a futex */
extern const char *own_path;
extern int shared_fd;

/* Begins the thread of a slot. Returns an error number. */
int slot_start(struct slot *slot);

/*
 * The steps of each subject. Each returns the result of the calls, or STEP_LEFT_OUT before it has
 * recorded that the step begins.
 */
int perform_lock(struct slot *self, const struct step *step);
int perform_cond(struct slot *self, const struct step *step);
int perform_join(struct slot *self, const struct step *step);
int perform_policy(struct slot *self, const struct step *step);
int perform_region(struct slot *self, const struct step *step);
int perform_child(struct slot *self, const struct step *step);

void step_begins(struct slot *self);

/* Unlocks the lock with this number once. Returns an error number. */
int unlock_lock(struct slot *self, int lock);

/* All locks, or all but those which a thread may hold when it ends. */
void unlock_all(struct slot *self, bool ends);

static inline struct timespec time_in_us(clockid_t clock, long us)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += us * 1000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

#endif
