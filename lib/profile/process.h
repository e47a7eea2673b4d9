/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether the calling process is the one that the profiler's memory is about.
 *
 * A child of fork(), _Fork(), clone() or clone3() without CLONE_VM has a copy of that memory, but
 * the file that is mapped there is its parent's: the parent opens parts of it that the child cannot
 * access.  The kernel clears a word in such a child (madvise(2), MADV_WIPEONFORK), so each function
 * that reads the file notices, whichever system call made the child.  A child with CLONE_VM
 * (vfork(), posix_spawn()) has its parent's memory itself, and counts as the thread that made it.
 *
 * All functions are async-signal-safe and need no lock.
 */
#ifndef TEK_PROFILE_PROCESS_H
#define TEK_PROFILE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* 0: this is a child that has not begun anew. */
extern uint32_t *tek_prof__process_word __attribute__((visibility("hidden")));

static inline bool tek_prof__process_is_known(void)
{
	return __builtin_expect(__atomic_load_n(tek_prof__process_word, __ATOMIC_RELAXED) != 0, 1);
}

/* Once, before anything is counted. */
void tek_prof__process_start(void);

/*
 * In a child: it begins anew, with a file of its own and the calling thread as its first one.  Does
 * nothing elsewhere, and where a signal handler in the child has done so before.
 */
void tek_prof__process_forked(void);

#endif
