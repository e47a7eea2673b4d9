/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The part of the table about lifts and inversions (abi/tek_inversions.h). It lies in the first
 * page of the table, so that a write needs no memory.
 *
 * All functions need the lock (threads/process.h). They do nothing while there is no table.
 */
#ifndef TEK_THREADS_INVERSIONS_H
#define TEK_THREADS_INVERSIONS_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* A thread is lifted from now on; a lift of so many ns has ended. */
void tek__inversions_lift_begins(void);
void tek__inversions_lift_ends(uint64_t ns);

/* Whether a wait is the longest of its place, and the table has a slot for that. */
bool tek__inversions_wants(const struct tek_inversion *wait);

/*
 * Counts a wait. Its kind, object, call and wait_ns are set; the fields below wait_ns matter only
 * if the table wants them.
 */
void tek__inversions_add(const struct tek_inversion *wait);

/*
 * A thread waits, and does not any more. If all slots are taken, the oldest wait gives up its one.
 */
void tek__inversions_wait_begins(const struct tek_held_up *wait);
void tek__inversions_wait_ends(tek_u32 tid);

/*
 * The waits of all deadlocks that are known: each with TEK_HELD_UP_DEADLOCK in its kind. One that
 * the table has already keeps its beginning; one that is not among these any more is removed.
 */
void tek__inversions_deadlocks(const struct tek_held_up *waits, unsigned int count);

/* Whether a deadlock is known. Needs no lock. */
bool tek__inversions_have_deadlocks(void);

/* The process ends: writes them to the event file, if there is one. */
void tek__inversions_report(void);

#endif
