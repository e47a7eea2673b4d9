/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flags of the C library in the objects of pthread.h.  libtek-sync.so and libtek-uthread.so have
 * objects of their own in the same memory, and recognise the C library's objects by these flags.
 *
 * Their places differ by version and by processor: glibc 2.41 moved those of condition variables.
 * So a probe lets the C library initialise two objects, one with the property and one without it.
 * The bit that differs is the flag.  docs/design/c-library.md lists all such probes.
 *
 * Each library has them once: tek_sync__objects() (preload/sync/objects.h) and tek_ut__objects()
 * (uthread/posix/objects.h).
 *
 * Life cycle: found at the first call of one of these, constant afterwards.  It takes no lock and
 * allocates nothing.  Two threads that call it first at the same time find the same values.
 */
#ifndef TEK_BASE_OBJECTS_H
#define TEK_BASE_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A flag in an object. */
struct tek_flag {
	unsigned char at;  /* bytes from the beginning of the object */
	unsigned char bit; /* 0: not found */
};

struct tek_objects {
	atomic_bool known;
	/*
	 * Whether pthread_mutex_t has its type and its flags where the headers say, and with the
	 * same values.
	 */
	bool mutexes;
	/* Whether pthread_rwlock_t has its preference where the headers say. */
	bool rwlocks;
	/* Whether PTHREAD_ONCE_INIT becomes TEK_OBJECTS_ONCE_DONE. */
	bool once;
	/* The object is shared by processes. */
	struct tek_flag cond_shared, rwlock_shared, barrier_shared, semaphore_shared;
	/* pthread_cond_timedwait() takes times of CLOCK_MONOTONIC. */
	struct tek_flag cond_monotonic;
	/* The values of a pthread_spinlock_t, free and locked, which differ. */
	unsigned int spinlock_free, spinlock_locked;
};

#define TEK_OBJECTS_ONCE_DONE 2

/*
 * Runs all probes. Idempotent. `keep_fitting` is of the library: a flag that overlaps a member of
 * the library's own object becomes "not found".
 */
void tek__objects_find(struct tek_objects *objects,
		       void (*keep_fitting)(struct tek_objects *found));

/* For that: the flags of condition variables count only if both lie at byte `from` or behind it. */
void tek__objects_keep_cond_flags(struct tek_objects *found, size_t from);

static inline bool tek__flag_is_set(const void *object, struct tek_flag flag)
{
	return ((const unsigned char *)object)[flag.at] & flag.bit;
}

static inline void tek__flag_set(void *object, struct tek_flag flag)
{
	((unsigned char *)object)[flag.at] |= flag.bit;
}

/* The first byte behind a member. */
#define TEK_END_OF(type, member) (offsetof(type, member) + sizeof(((type *)NULL)->member))

/* Whether the flag was found in the bytes from `from` up to, but not including, `end`. */
static inline bool tek__flag_is_within(struct tek_flag flag, size_t from, size_t end)
{
	return flag.bit && flag.at >= from && flag.at < end;
}

#endif
