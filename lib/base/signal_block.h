/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocks all signals of the calling thread for a moment: while it holds a lock that other threads
 * need at any time. A handler of the program could stop the thread there, as those of garbage
 * collectors do, and wait for the other threads.
 *
 * Two raw system calls; errno stays.
 */
#ifndef TEK_BASE_SIGNAL_BLOCK_H
#define TEK_BASE_SIGNAL_BLOCK_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's signal mask. */
typedef uint64_t tek_signals;

static inline tek_signals tek__signals_block(void)
{
	const tek_signals all = UINT64_MAX;
	tek_signals before = 0;
	const int saved = errno;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(before));
	errno = saved;
	return before;
}

static inline void tek__signals_restore(tek_signals before)
{
	const int saved = errno;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	errno = saved;
}

#endif
