/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/spin.h"

#include <sys/syscall.h>
#include <unistd.h>

/* Until the engine starts, and where it cannot, all threads are the kernel's. */
atomic_bool tek_ut__parallel_now = true;

__attribute__((cold, noinline)) void tek_ut__spin_wait(struct tek_spin *spin)
{
	for (;;) {
		for (int i = 0; i < TEK_SPIN_TRIES; i++) {
			if (!atomic_load_explicit(&spin->held, memory_order_relaxed) &&
			    tek_ut__spin_try(spin))
				return;
			tek_ut__relax();
		}
		/*
		 * Its holder may wait for this very CPU. Not sched_yield(3), which may be the
		 * engine's.
		 */
		syscall(SYS_sched_yield);
	}
}
