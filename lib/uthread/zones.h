/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code in which a thread must not be preempted: it may hold a lock of the C library, the loader or an allocator, which
 * the next thread on the same kernel thread would wait for in the kernel.
 *
 * Libraries are known by their names.  What is mapped, and can be executed, is read from /proc at the start, and again
 * by the monitor when a tick meets an address that is not known yet: a library that was loaded meanwhile, or code
 * that the program has made itself.  Not from the loader, whose lock may be held by somebody who was preempted.
 */
#ifndef TEK_UTHREAD_ZONES_H
#define TEK_UTHREAD_ZONES_H

#include <stdbool.h>
#include <stdint.h>

/* At the start of preemption. 0 or an error number: then nobody can be preempted. */
int tek__zones_find(void);

/* By the monitor: again, if somebody has asked for it. */
void tek__zones_update(void);

/* A library has come or gone. */
void tek__zones_changed(void);

void tek__zones_after_fork(void);

/*
 * Whether whoever is at this address can be preempted.  An address that is not known is looked up, and
 * until that has been done cannot be left.  In a signal handler.
 */
bool tek__zones_allow(uintptr_t address);

#endif
