/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks, one kind in each file: rwlock_NAME.c.
 *
 * A lock lies in a pthread_rwlock_t (preload/sync/rwlock.c), and `prefers` where the C library's static initialisers
 * have it; otherwise all zero is a free one of whatever kind.  Who uses it calls the functions of one kind from its
 * first use to its last.
 *
 * Life: nobody reads or writes a lock after the store that unlocks it, so who locks it next may destroy and free it.
 *
 * Who waits does so by the means of waiting.h: kernel threads and user-level threads alike.  No function here is
 * async-signal-safe or a cancellation point, and none allocates.
 */
#ifndef TEK_SYNC_RWLOCK_H
#define TEK_SYNC_RWLOCK_H

#include "sync/until.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* tek_rwlock.prefers: PTHREAD_RWLOCK_PREFER_*_NP. */
enum {
	TEK_RWLOCK_READERS = 0,
	TEK_RWLOCK_WRITERS_RECURSIVE = 1, /* as the first: else nobody could read-lock it twice */
	TEK_RWLOCK_WRITERS = 2,
};

struct tek_rwlock_waiter;

struct tek_rwlock {
	union {
		struct {
			atomic_uint readers_in, readers_out, writers_in, writers_out;
		} pf;
		struct {
			atomic_uint state;
			unsigned int writers;
			struct tek_rwlock_waiter *first, *last;
		} park;
	};
#if __SIZEOF_POINTER__ == 8
	uint64_t theirs; /* "shared by processes" is here, or behind `prefers`, and stays zero */
	/* For who has to know the writer (EDEADLK); no kind looks at it. */
	_Atomic uintptr_t writer;
	atomic_uint process; /* which wrote it last, kept by who calls adopt(): forked.h */
	unsigned char prefers __attribute__((aligned(8)));
#else
	uint32_t reserved;
	atomic_uint process;
	unsigned char prefers;
	unsigned char theirs[3];
	_Atomic uintptr_t writer;
#endif
};

/*
 * The functions of a kind.  Locking is an acquire operation, and unlocking a release operation, in the sense of C11:
 * what was written under the write lock is seen by who has it next, and who writes comes after all that was read.
 */
struct tek_rwlock_kind {
	const char *name;  /* as --rwlock has it */
	const char *about; /* a few words for --help */
	bool recursive; /* who reads may read-lock it again while a writer waits, unless it prefers writers */
	bool sleeps; /* who waits for long sleeps */

	bool (*try_read)(struct tek_rwlock *lock);
	bool (*try_write)(struct tek_rwlock *lock);
	/* 0, ETIMEDOUT, EINVAL: `until` is no time (found out only if it has to wait). */
	int (*read_until)(struct tek_rwlock *lock, struct tek_until until);
	int (*write_until)(struct tek_rwlock *lock, struct tek_until until);
	/*
	 * In the child of a process, before anything else: nobody waits.  Who had it when the child was forked has it still;
	 * `written`: that is a writer, who may have been on the way in or out otherwise.
	 */
	void (*adopt)(struct tek_rwlock *lock, bool written);
	/* By who has read-locked, or write-locked it. */
	void (*unlock_read)(struct tek_rwlock *lock);
	void (*unlock_write)(struct tek_rwlock *lock);
};

/* Ends with NULL; the order is that of --help. */
extern const struct tek_rwlock_kind *const tek__rwlock_kinds[]
	__attribute__((visibility("hidden")));

/* NULL: there is none of that name. */
const struct tek_rwlock_kind *tek__rwlock_kind_named(const char *name);

#define TEK_RWLOCK_KIND(kind) \
	extern const struct tek_rwlock_kind tek__rwlock_##kind __attribute__((visibility("hidde" \
											 "n")))
TEK_RWLOCK_KIND(pf);
TEK_RWLOCK_KIND(park);

#endif
