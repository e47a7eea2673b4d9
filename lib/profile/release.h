/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records which thread released a waiter. A waiter registers in a small table, at a place that the
 * object's address gives. A thread that releases an object reads that place, and only where a
 * thread waits it records its number and the time. Two objects may share a place: then a release of
 * the other object may be taken for one of this object, which the time of a wait bounds.
 */
#ifndef TEK_PROFILE_RELEASE_H
#define TEK_PROFILE_RELEASE_H

#include "profile/file.h"
#include "profile/thread.h"

#define TEK_PROFILE_PLACES 1024

struct tek_profile_place {
	uint32_t waiters;
	/*
	 * The last release: the thread's number above, ticks since the file's start in the lower 48
	 * bits.
	 */
	_Alignas(8) uint64_t last; /* i386 aligns to 4 */
} __attribute__((aligned(64)));

extern struct tek_profile_place tek_prof__places[TEK_PROFILE_PLACES]
	__attribute__((visibility("hidden")));

static inline struct tek_profile_place *tek_prof__place(const void *object)
{
	uint64_t hash = ((uintptr_t)object >> 3) * UINT64_C(0x9e3779b97f4a7c15);

	return &tek_prof__places[hash >> 54];
}

void tek_prof__note_release(struct tek_profile_place *place);

/*
 * The calling thread is about to release the object: call it before, so that the waiter finds the
 * record. A waiter that comes after the check waits for a later release, or hardly at all.
 */
static inline void tek_prof__releases(const void *object)
{
	struct tek_profile_place *place = tek_prof__place(object);

	if (__builtin_expect(__atomic_load_n(&place->waiters, __ATOMIC_RELAXED) != 0, 0))
		tek_prof__note_release(place);
}

/* The thread that released it last, and the time; 0: none since `begin`. */
uint32_t tek_prof__releaser(const void *object, uint64_t begin, uint64_t *when);

#endif
