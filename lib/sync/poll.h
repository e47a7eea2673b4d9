/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for a lock by trying again and again, beside its queue if it has one: where others always wait in that, it may
 * never be found free.
 */
#ifndef TEK_SYNC_POLL_H
#define TEK_SYNC_POLL_H

#include "sync/lock.h"
#include "sync/waiting.h"

/*
 * From look to look, at first and at most.  Fewer looks disturb the holder less, and a lock that goes from CPU to CPU takes
 * its line and what it guards with it: 0.06 to 0.3 us by `spin`, whose locks guard four lines.
 */
#define TEK_TURNS_FIRST 8u
#define TEK_TURNS_APART 64u

/* 0, ETIMEDOUT, EINVAL. */
static inline int tek__poll_until(struct tek_lock *lock, bool (*try)(struct tek_lock *),
				  struct tek_until until)
{
	struct tek_spinning spinning = {0};
	int error = 0;

	/* With an error it does not try again: then it would have a lock of which it says that it has none. */
	while (!error && !try(lock))
		error = tek__spin_until(&spinning, until);
	return error;
}

/* Each halves the turns of this thread until the next time that spinning pays. */
#define TEK_HALVINGS_MOST 4u
extern __thread unsigned int tek__spin_halvings
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void tek__spin_has_paid(bool has_paid)
{
	if (has_paid && tek__spin_halvings)
		tek__spin_halvings--;
	else if (!has_paid && tek__spin_halvings < TEK_HALVINGS_MOST)
		tek__spin_halvings++;
}

/*
 * Whether it was had in the turns that one spins before it sleeps; from look to look so many at first.  It spins less where
 * that does not pay: who has the lock may wait for this CPU.  A user-level thread lets others of its worker run instead.
 */
static inline bool tek__poll_apart(struct tek_lock *lock, bool (*try)(struct tek_lock *),
				   struct tek_until until, unsigned int apart)
{
	const unsigned int most = tek__spin_limit >> tek__spin_halvings;
	struct tek_spinning spinning = {0};

	if (tek__spin_limit && tek__on_user_level()) {
		tek__give_way();
		return try(lock);
	}
	while (spinning.turns < most) {
		for (unsigned int i = 0; i < apart; i++)
			if (tek__spin_until(&spinning, until))
				return false;
		if (apart < TEK_TURNS_APART)
			apart *= 2;
		if (try(lock)) {
			tek__spin_has_paid(true);
			return true;
		}
	}
	tek__spin_has_paid(false);
	return false;
}

static inline bool tek__poll(struct tek_lock *lock, bool (*try)(struct tek_lock *),
			     struct tek_until until)
{
	return tek__poll_apart(lock, try, until, TEK_TURNS_FIRST);
}

/* Whether it was had by who lets others run, its holder among them, for a while. */
bool tek__poll_patiently(struct tek_lock *lock, bool (*try)(struct tek_lock *));

#endif
