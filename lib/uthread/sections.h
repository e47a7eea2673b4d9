/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Non-preemptible sections. A thread in such code may hold a lock of the C library, the loader or
 * an allocator. The next thread on the same kernel thread would wait for that lock in the kernel.
 *
 * Libraries are known by their names. The executable mappings are read from /proc at the start. The
 * monitor reads them again when a tick meets an unknown address: a library that was loaded
 * meanwhile, or code that the program has generated. The loader is not asked: a preempted thread
 * may hold its lock.
 */
#ifndef TEK_UTHREAD_SECTIONS_H
#define TEK_UTHREAD_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* At the start of preemption. 0 or an error number: then no thread can be preempted. */
int tek_ut__sections_find(void);

/* By the monitor: again, if that was requested. */
void tek_ut__sections_update(void);

/* A library was loaded or unloaded. */
void tek_ut__sections_changed(void);

void tek_ut__sections_after_fork(void);

/*
 * Whether a thread at this address can be preempted. For an unknown address: false, and the
 * mappings are read again unless the list of mappings is full. In a signal handler.
 */
bool tek_ut__sections_allow(uintptr_t address);

#endif
