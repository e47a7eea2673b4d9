/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/profile/call.h"

#include <errno.h>

void tek_prof__got_after(struct tek_profile_waiting *waiting, const void *object, const void *site,
			 tek_u32 kind, int result)
{
	struct tek_profile_thread *thread = waiting->thread;
	bool is_lock = kind <= TEK_PROFILE_WRITE;

	if (!thread)
		return;
	/* Each end of a thread is waited for once: those of a place are one. */
	const void *of = kind == TEK_PROFILE_JOIN ? NULL : object;
	struct tek_profile_object *counted = tek_prof__object(thread, of, site, kind, true);
	tek_prof__waited(waiting, TEK_PROFILE_SYNC, kind, site, counted);
	if (counted && (!is_lock || result == 0 || result == EOWNERDEAD)) {
		counted->count++;
		counted->contended++;
	}
	if (is_lock && (result == 0 || result == EOWNERDEAD)) {
		thread->locks++;
		tek_prof__holds(object, counted, tek_prof__ticks());
	}
}
