/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/guard.h"

#include <sys/syscall.h>
#include <unistd.h>

__attribute__((cold, noinline)) void tek__guard_wait(atomic_uint *word, unsigned int bit)
{
	for (unsigned int tries = 1; atomic_load_explicit(word, memory_order_acquire) & bit;
	     tries++) {
		/* Its holder may wait for this very CPU. Not sched_yield(3), which may be ours. */
		if (tries % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
		else
			tek__relax();
	}
}
