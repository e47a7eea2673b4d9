/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who let whom go on.  A thread that waits for an object says so in a small table, at a place that the
 * object's address gives; who releases an object looks there, and only where somebody waits writes
 * down who it is and when.  Two objects may share a place: then a release of the other one may be taken
 * for one of this, which the time of a wait bounds.
 */
#ifndef TEK_PROFILE_RELEASE_H
#define TEK_PROFILE_RELEASE_H

#include "profile/file.h"
#include "profile/thread.h"

#define TEK_PROFILE_PLACES 1024

struct tek_profile_place {
	uint32_t waiters;
	/* The last release: the thread's number above, ticks since the file's start in the lower 48 bits. */
	uint64_t last;
} __attribute__((aligned(64)));

extern struct tek_profile_place tek__profile_places[TEK_PROFILE_PLACES]
	__attribute__((visibility("hidden")));

static inline struct tek_profile_place *tek__profile_place(const void *object)
{
	uint64_t hash = ((uintptr_t)object >> 3) * UINT64_C(0x9e3779b97f4a7c15);

	return &tek__profile_places[hash >> 54];
}

void tek__profile_note_release(struct tek_profile_place *place);

/*
 * The calling thread is about to release the object: to be called before, so that who goes on finds it.
 * A waiter that comes after the look waits for a later release, or hardly at all.
 */
static inline void tek__profile_releases(const void *object)
{
	struct tek_profile_place *place = tek__profile_place(object);

	if (__builtin_expect(__atomic_load_n(&place->waiters, __ATOMIC_RELAXED) != 0, 0))
		tek__profile_note_release(place);
}

/* Who released it last, and when; 0: nobody since `begin`. */
uint32_t tek__profile_releaser(const void *object, uint64_t begin, uint64_t *when);

#endif
