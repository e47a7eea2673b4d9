/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/here.h"

__thread struct tek_here tek__here;

#if !defined(__x86_64__)

/* The linker defines symbols for the begin and the end of a section with such a name. */
#define HERE __attribute__((noinline, section("tek_here")))

HERE struct tek_here *tek__here_find(void)
{
	return &tek__here;
}

HERE struct tek_worker *tek__here_worker(void)
{
	return __atomic_load_n(&tek__here.worker, __ATOMIC_RELAXED);
}

HERE struct tek_worker *tek__here_entry(void)
{
	return __atomic_load_n(&tek__here.entry, __ATOMIC_RELAXED);
}

HERE struct tek_uthread *tek__here_self(void)
{
	return __atomic_load_n(&tek__here.self, __ATOMIC_RELAXED);
}

HERE struct tek_carrier *tek__here_carrier(void)
{
	return __atomic_load_n(&tek__here.carrier, __ATOMIC_RELAXED);
}

HERE void tek__here_defer(void)
{
	tek__here.defer++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

HERE bool tek__here_undefer(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return --tek__here.defer == 0 && tek__here.pending;
}

#endif
