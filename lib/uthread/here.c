/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/here.h"

__thread struct tek_here tek_ut__here;

#if !defined(__x86_64__)

/* The linker defines symbols for the begin and the end of a section with such a name. */
#define HERE __attribute__((noinline, section("tek_here")))

HERE struct tek_here *tek_ut__here_find(void)
{
	return &tek_ut__here;
}

HERE struct tek_worker *tek_ut__here_worker(void)
{
	return __atomic_load_n(&tek_ut__here.worker, __ATOMIC_RELAXED);
}

HERE struct tek_worker *tek_ut__here_entry(void)
{
	return __atomic_load_n(&tek_ut__here.entry, __ATOMIC_RELAXED);
}

HERE struct tek_uthread *tek_ut__here_self(void)
{
	return __atomic_load_n(&tek_ut__here.self, __ATOMIC_RELAXED);
}

HERE struct tek_carrier *tek_ut__here_carrier(void)
{
	return __atomic_load_n(&tek_ut__here.carrier, __ATOMIC_RELAXED);
}

HERE void tek_ut__here_defer(void)
{
	tek_ut__here.defer++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

HERE bool tek_ut__here_undefer(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return --tek_ut__here.defer == 0 && tek_ut__here.pending;
}

#endif
