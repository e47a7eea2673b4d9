/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * More threads than CPUs, under locks or barriers that need a CPU for each thread
 * (base/wants_cpus.h).
 */
#ifndef TEK_LIFE_CROWD_H
#define TEK_LIFE_CROWD_H

/*
 * A thread is about to be created: the first time that this makes too many it is reported. Needs
 * the lock.
 */
void tek__crowd_check(void);

#endif
