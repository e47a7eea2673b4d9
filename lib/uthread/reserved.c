/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/reserved.h"

#include <signal.h>
#include <stdatomic.h>

/* Set by the first call: SIGRTMIN grows when a program allocates real-time signals. */
static _Atomic uint64_t found;

uint64_t tek_ut__reserved_signals(void)
{
	uint64_t signals = atomic_load_explicit(&found, memory_order_relaxed);

	if (signals)
		return signals;
	for (int number = TEK_RESERVED_FIRST; number < SIGRTMIN; number++)
		signals |= 1ull << (number - 1);
	atomic_store_explicit(&found, signals, memory_order_relaxed);
	return signals;
}
