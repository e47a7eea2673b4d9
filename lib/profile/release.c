/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/release.h"

#include "profile/clock.h"

#define TICKS_BITS 48
#define TICKS_MASK ((UINT64_C(1) << TICKS_BITS) - 1)

_Static_assert(TEK_PROFILE_PLACES == 1 << 10, "tek_prof__place() takes ten bits");
_Static_assert(TEK_PROFILE_MAX_THREADS < 1 << (64 - TICKS_BITS), "a number fits");

struct tek_profile_place tek_prof__places[TEK_PROFILE_PLACES];

void tek_prof__note_release(struct tek_profile_place *place)
{
	struct tek_profile_header *file = tek_prof__file;

	if (!file || !tek_prof__self.thread)
		return;
	uint64_t ticks = (tek_prof__ticks() - file->start_ticks) & TICKS_MASK;
	/* Relaxed: it is read behind the object's own release and acquisition, or is a hint. */
	__atomic_store_n(&place->last, (uint64_t)tek_prof__self.number << TICKS_BITS | ticks,
			 __ATOMIC_RELAXED);
}

uint32_t tek_prof__releaser(const void *object, uint64_t begin, uint64_t *when)
{
	uint64_t last = __atomic_load_n(&tek_prof__place(object)->last, __ATOMIC_RELAXED);
	uint64_t now = tek_prof__ticks();
	/*
	 * The missing upper bits are those of now, or the release is older than any wait; another
	 * CPU's counter may be a bit ahead.
	 */
	uint64_t ago = (now - tek_prof__file->start_ticks - last) & TICKS_MASK;
	uint64_t ticks = ago > TICKS_MASK / 2 ? now : now - ago;

	if (!last || ticks < begin)
		return 0;
	*when = ticks;
	return (uint32_t)(last >> TICKS_BITS);
}
