/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The places of the C library's flags in objects of pthread.h, as base/objects.h finds them for
 * libtek-sync.so. A flag that a member of this library's own object would overlap counts as not
 * found. Objects of that type then stay the C library's.
 */
#ifndef TEK_PRELOAD_SYNC_OBJECTS_H
#define TEK_PRELOAD_SYNC_OBJECTS_H

#include "base/objects.h"

extern struct tek_objects tek_sync__objects_found __attribute__((visibility("hidden")));

/* Runs all probes. Idempotent. */
void tek_sync__objects_find(void);

static inline const struct tek_objects *tek_sync__objects(void)
{
	if (__builtin_expect(
		    !atomic_load_explicit(&tek_sync__objects_found.known, memory_order_acquire), 0))
		tek_sync__objects_find();
	return &tek_sync__objects_found;
}

#endif
