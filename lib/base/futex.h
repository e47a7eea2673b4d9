/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * futex(2): a thread sleeps in the kernel until a word changes. No lock, no allocation;
 * async-signal-safe.
 */
#ifndef TEK_BASE_FUTEX_H
#define TEK_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A 32-bit C library with a 64-bit time_t needs the system call that takes it. */
#if defined(SYS_futex_time64) && __TIMESIZE != 64
#define TEK_SYS_FUTEX (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define TEK_SYS_FUTEX SYS_futex
#endif

/*
 * Sleep while *word is `seen`, at most until `deadline` of CLOCK_MONOTONIC; NULL:
 * for ever.  May return early.  futex(2), FUTEX_WAIT_BITSET: its time is absolute.
 */
static inline void tek__futex_wait(atomic_uint *word, unsigned int seen,
				   const struct timespec *deadline)
{
	syscall(TEK_SYS_FUTEX, word, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

static inline void tek__futex_wake_all(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
