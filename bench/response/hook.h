/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a program would say that a thread is time-critical.  `appliance` is linked
 * with hook_plain.c, which says nothing; `appliance-tek` with hook_tek.c.
 */
#ifndef APPLIANCE_HOOK_H
#define APPLIANCE_HOOK_H

/* The calling thread, one on the path of a touch event, begins ... */
void hook_critical_begin(void);

/* ... and has nothing urgent to do any more. */
void hook_critical_end(void);

#endif
