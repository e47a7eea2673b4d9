/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code in which a thread must not be preempted: it may hold a lock of the C library, the loader or an allocator, which
 * the next thread on the same kernel thread would wait for in the kernel.
 *
 * Libraries are known by their names.  The ranges of all libraries are found at the start, and again by the monitor
 * when a tick meets an address that belongs to none: a library that was loaded meanwhile, or code that the
 * program has made itself.
 */
#ifndef TEK_UTHREAD_ZONES_H
#define TEK_UTHREAD_ZONES_H

#include <stdbool.h>
#include <stdint.h>

/* At the start; by the monitor, if somebody asked for it. */
void tek__zones_find(void);
void tek__zones_update(void);

/*
 * Whether whoever is at this address can be preempted.  An address that is not known is looked up later, and
 * until then cannot be left.  In a signal handler.
 */
bool tek__zones_allow(uintptr_t address);

#endif
