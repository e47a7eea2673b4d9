/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for a lock by trying again and again, beside its queue if it has one. Where other threads
 * always wait in the queue, the caller may never find the lock free.
 */
#ifndef TEK_SYNC_POLL_H
#define TEK_SYNC_POLL_H

#include "sync/lock.h"
#include "sync/waiting.h"

/*
 * Spin iterations between two polls, at first and at most. Fewer polls disturb the holder less. A
 * lock that goes from CPU to CPU takes its line and the data that it protects with it: 0.06 to 0.3
 * us by `spin`: its locks protect four lines.
 */
#define TEK_ITERATIONS_FIRST 8u
#define TEK_ITERATIONS_APART 64u

/* 0, ETIMEDOUT, EINVAL. */
static inline int tek_sync__poll_until(struct tek_lock *lock, bool (*try)(struct tek_lock *),
				       struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int error = 0;

	/*
	 * After an error it does not try again: it would report a lock that it holds as not held.
	 */
	while (!error && !try(lock))
		error = tek_sync__spin_until(&spinning, until);
	return error;
}

/* Each halves this thread's spin iterations until spinning pays again. */
#define TEK_HALVINGS_MOST 4u
extern __thread unsigned int tek_sync__spin_halvings
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void tek_sync__spin_has_paid(bool has_paid)
{
	if (has_paid && tek_sync__spin_halvings)
		tek_sync__spin_halvings--;
	else if (!has_paid && tek_sync__spin_halvings < TEK_HALVINGS_MOST)
		tek_sync__spin_halvings++;
}

/*
 * True if the lock was taken within the spin iterations before sleeping; `apart`: the first
 * distance of polls. It spins less where that does not pay: the holder may wait for this CPU. A
 * user-level thread yields to the other threads of its worker instead.
 */
static inline bool tek_sync__poll_apart(struct tek_lock *lock, bool (*try)(struct tek_lock *),
					struct tek_until until, unsigned int apart)
{
	const unsigned int most = tek_sync__spin_limit >> tek_sync__spin_halvings;
	struct tek_spinning spinning = {0};

	if (tek_sync__spin_limit && tek_sync__on_user_level()) {
		tek_sync__give_way();
		return try(lock);
	}
	while (spinning.iterations < most) {
		for (unsigned int i = 0; i < apart; i++)
			if (tek_sync__spin_until(&spinning, until))
				return false;
		if (apart < TEK_ITERATIONS_APART)
			apart *= 2;
		if (try(lock)) {
			tek_sync__spin_has_paid(true);
			return true;
		}
	}
	tek_sync__spin_has_paid(false);
	return false;
}

static inline bool tek_sync__poll(struct tek_lock *lock, bool (*try)(struct tek_lock *),
				  struct tek_until until)
{
	return tek_sync__poll_apart(lock, try, until, TEK_ITERATIONS_FIRST);
}

/* True if the lock was taken within a while in which the caller yields, to the holder perhaps. */
bool tek_sync__poll_patiently(struct tek_lock *lock, bool (*try)(struct tek_lock *));

#endif
