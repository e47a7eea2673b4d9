/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-rtfifo.so, which `tek run --place rtfifo` preloads beside libtek.so: pthread_spin_lock() for threads of one
 * real-time priority.
 *
 * The C library's spins for ever.  On a CPU where the holder waits for the one who spins that is for ever indeed: it lets
 * nobody else run (the starvation of dedup, rtos-linux-scalability-2018, 4.5).  This one spins as spins in TEK do
 * (sync/waiting.h): under a real-time policy it lets others of its priority run, and at last sleeps for moments.
 *
 * What a free lock looks like is the C library's business, which differs by processor: it is asked by
 * pthread_spin_trylock(), and between two attempts the word is watched for a change.  So locks that other processes
 * share, or that were locked before, are locks here too.
 */
#include "sync/waiting.h"

#include <pthread.h>

__attribute__((visibility("default"))) int pthread_spin_lock(pthread_spinlock_t *lock)
{
	struct tek_spinning spinning = {0};

	while (pthread_spin_trylock(lock)) {
		const int seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
		/* Now and then tried all the same: it may have been free before we looked. */
		do {
			tek__spin(&spinning);
		} while (__atomic_load_n(lock, __ATOMIC_RELAXED) == seen &&
			 spinning.turns % TEK_TURNS != 0);
	}
	return 0;
}
