/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Placed threads, and programs that ask for their affinity and set it.
 *
 * A program that queries gets the CPUs of the process: it would take the one CPU of a place for a
 * machine with one CPU. So a thread for which it sets just that goes (back) to its place, as after
 * saving and restoring it. One for which it sets anything else, be it the CPU where TEK put it, is
 * the program's from then on: its queries get its real affinity, and threads and processes that it
 * creates are left alone.
 */
#ifndef TEK_PLACE_AFFINITY_H
#define TEK_PLACE_AFFINITY_H

#include "threads/lookup.h"

#include <sched.h>
#include <stddef.h>

/* The C library's own call: 0 or an error number. */
typedef int tek__affinity_setter(struct tek_target target, size_t bytes, const cpu_set_t *mask);

/*
 * The program got the affinity of a thread into `mask`. Takes the lock for other threads than the
 * calling one.
 */
void tek__affinity_report(struct tek_target target, size_t bytes, cpu_set_t *mask);

/* It sets one. Takes the lock. Returns what `real` does, the call in the C library. */
int tek__affinity_set(struct tek_target target, size_t bytes, const cpu_set_t *mask,
		      tek__affinity_setter *real);

/*
 * The program got this policy of a thread: of one that TEK made SCHED_FIFO it does not see the flag
 * with which that was done.  Takes the lock.
 */
int tek__place_policy_reported(struct tek_target target, int policy);

#endif
