/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/spinlock.h"

#include "uthread/wait.h"
#include "uthread/worker.h"

#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 100 /* while the holder may be on another CPU */
#define YIELDS 50 /* while it may be any other thread */

static bool is_free(tek_spinlock *lock)
{
	return atomic_load_explicit(lock, memory_order_relaxed) == TEK_SPINLOCK_FREE;
}

static void yield_to_ready(void)
{
	if (tek_ut__enter())
		tek_ut__yield(TEK_READY_YIELDED);
	else
		syscall(SYS_sched_yield);
	tek_ut__leave();
}

void tek_ut__spinlock_wait(tek_spinlock *lock)
{
	for (int i = 0; tek_ut__parallel() && i < SPINS; i++) {
		if (is_free(lock))
			return;
		tek_ut__relax();
	}
	for (int i = 0; i < YIELDS; i++) {
		if (is_free(lock))
			return;
		yield_to_ready();
	}
	if (!is_free(lock))
		tek_ut__pause(); /* yields do not help: the holder has a lesser priority */
}
