/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The operations of a thread on each lock, barrier, ... at each place of the program: a small hash
 * table in the thread's part of the file, which no other thread writes. A program may have any
 * number of locks: where there is no room for another one, those of a place count together.
 *
 * The time of holding a lock is always measured after a wait, and otherwise now and then; such a
 * sample stands for the unmeasured ones, too.
 */
#ifndef TEK_PROFILE_OBJECT_H
#define TEK_PROFILE_OBJECT_H

#include "profile/thread.h"

/* One acquisition in so many on average is measured. */
#define TEK_PROFILE_HOLD_EACH 16

/* The object's counters; NULL: none. A wait may use more of the table than other operations. */
struct tek_profile_object *tek_prof__object(struct tek_profile_thread *thread, const void *object,
					    const void *site, tek_u32 kind, bool is_contended);

/* The calling thread has it now, since `now`; 0: it is not measured unless its turn has come. */
void tek_prof__holds(const void *object, struct tek_profile_object *counted, uint64_t now);

/* It gives it back. */
void tek_prof__held(const void *object);

static inline void tek_prof__gives_back(const void *object)
{
	if (__builtin_expect(tek_prof__self.held != 0, 0))
		tek_prof__held(object);
}

#endif
