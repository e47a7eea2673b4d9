/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks, one kind in each file: rwlock_NAME.c. The callers are the functions of
 * preload/sync/rwlock.c.
 *
 * A lock lies in a pthread_rwlock_t, with `prefers` where the C library's static initialisers have
 * it; otherwise all zero is a free lock of any kind. A user calls the functions of one kind from
 * first use to last.
 *
 * Life cycle: no thread accesses a lock after the store that unlocks it, so the next holder may
 * destroy and free it.
 *
 * Waiters wait by the functions of waiting.h, kernel threads and user-level threads alike. No
 * function here is async-signal-safe or a cancellation point, and none allocates.
 */
#ifndef TEK_SYNC_RWLOCK_H
#define TEK_SYNC_RWLOCK_H

#include "base/until.h"
#include "tek_options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* tek_rwlock.prefers: PTHREAD_RWLOCK_PREFER_*_NP. */
enum {
	TEK_RWLOCK_READERS = 0,
	TEK_RWLOCK_WRITERS_RECURSIVE = 1, /* as the first, so that a thread may read-lock twice */
	TEK_RWLOCK_WRITERS = 2,
};

struct tek_rwlock_waiter;

struct tek_sync_rwlock {
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
	/* For callers that need the writer (EDEADLK); no kind reads it. */
	_Atomic uintptr_t writer;
	atomic_uint process; /* the process that wrote it last, set by adopt()'s caller: forked.h */
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
 * The functions of a kind. Locking is an acquire operation, and unlocking a release operation, in
 * the sense of C11. The next holder sees what was written under the write lock, and a writer comes
 * after all earlier reads.
 */
struct tek_rwlock_kind {
	const char *name; /* as --rwlock has it */
	bool recursive;   /* a reader may lock again past a waiting writer, if readers go first */
	bool sleeps;      /* a long wait sleeps */

	bool (*try_read)(struct tek_sync_rwlock *lock);
	bool (*try_write)(struct tek_sync_rwlock *lock);
	/* 0, ETIMEDOUT; EINVAL: `until` is not a valid time (checked only if it has to wait). */
	int (*read_until)(struct tek_sync_rwlock *lock, struct tek_until until);
	int (*write_until)(struct tek_sync_rwlock *lock, struct tek_until until);
	/*
	 * In a child process, before any other call: there are no waiters. Holders at the fork
	 * still hold it. `written`: the holder is a writer; otherwise a writer may have been
	 * entering or leaving.
	 */
	void (*adopt)(struct tek_sync_rwlock *lock, bool written);
	/* By the holder of the read lock, or of the write lock. */
	void (*unlock_read)(struct tek_sync_rwlock *lock);
	void (*unlock_write)(struct tek_sync_rwlock *lock);
};

/* Those of TEK_RWLOCK_KINDS, in its order. Ends with NULL. */
extern const struct tek_rwlock_kind *const tek_sync__rwlock_kinds[]
	__attribute__((visibility("hidden")));

/* NULL: no kind has that name. */
const struct tek_rwlock_kind *tek_sync__rwlock_kind_named(const char *name);

#define TEK_RWLOCK_KIND(kind, name, about) \
	extern const struct tek_rwlock_kind tek_sync__rwlock_##kind \
		__attribute__((visibility("hidden")));
TEK_RWLOCK_KINDS(TEK_RWLOCK_KIND)
#undef TEK_RWLOCK_KIND

#endif
