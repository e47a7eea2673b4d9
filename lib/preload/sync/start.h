/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The configuration of libtek-sync.so: the variable TEK_SYNC,
 * "lock=NAME,rwlock=NAME,barrier=NAME,spin=N,report=1".
 *
 * It is read at the first call of one of our symbols, which may come from any constructor or from
 * an allocator, and before there is a second thread. From then on nothing here changes: an object
 * is of one kind from its first use to its last. Objects that were not requested stay the next
 * library's: its functions are NULL.
 */
#ifndef TEK_PRELOAD_SYNC_START_H
#define TEK_PRELOAD_SYNC_START_H

#include "sync/barrier.h"
#include "sync/lock.h"
#include "sync/rwlock.h"
#include "sync/spin.h"

#include <stdbool.h>

struct tek_sync_chosen {
	bool started;
	bool reports;                        /* what locks of kind auto have come to */
	struct tek_lock_kind mutex;          /* with it, condition variables are replaced, too */
	const struct tek_lock_kind *inherit; /* of mutexes with priority inheritance */
	const struct tek_spin_kind *spin;
	struct tek_rwlock_kind rwlock;
	struct tek_barrier_kind barrier;
};

extern struct tek_sync_chosen tek_sync__chosen __attribute__((visibility("hidden")));

/* The first time reads the variable. */
void tek_sync__start(void);

/*
 * Takes the settings of such a list into tek_sync__chosen, and changes the list. It reports and
 * ignores a setting that it does not know. For the start, and for tests.
 */
void tek_sync__choose(char *list);

static inline const struct tek_sync_chosen *tek_sync__sync(void)
{
	if (__builtin_expect(!tek_sync__chosen.started, 0))
		tek_sync__start();
	return &tek_sync__chosen;
}

/* Says once that the program has some that stay the C library's; `what`: "robust mutexes". */
void tek_sync__left(bool *reported, const char *what);

#endif
