/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-rtfifo.so, which `tek run --place rtfifo` preloads beside libtek.so: pthread_spin_lock()
 * for threads of one real-time priority.
 *
 * The C library's spins for ever. If the holder waits for the CPU of the spinning thread, it never
 * runs (the starvation of dedup, rtos-linux-scalability-2018, 4.5). This one spins as all of TEK
 * does (sync/waiting.h): under a real-time policy it yields to threads of its priority, and at last
 * sleeps for moments.
 *
 * The representation of a free lock is private to the C library and differs by processor. So
 * pthread_spin_trylock() tests it, and between two attempts the word is polled for a change. Locks
 * that other processes share, or that were locked before, work here too.
 */
#include "base/export.h"
#include "sync/waiting.h"

#include <pthread.h>

TEK_EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	struct tek_spinning spinning = {0};

	while (pthread_spin_trylock(lock)) {
		const int seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
		/* Now and then tried all the same: it may have been free before we looked. */
		do {
			tek_sync__spin(&spinning);
		} while (__atomic_load_n(lock, __ATOMIC_RELAXED) == seen &&
			 spinning.iterations % TEK_SPIN_ITERATIONS != 0);
	}
	return 0;
}
