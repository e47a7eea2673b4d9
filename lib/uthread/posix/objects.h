/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flags of the C library in the objects of pthread.h (base/objects.h), as far as they fit the
 * objects of libtek-uthread.so in the same memory.
 */
#ifndef TEK_UTHREAD_POSIX_OBJECTS_H
#define TEK_UTHREAD_POSIX_OBJECTS_H

#include "base/objects.h"

extern struct tek_objects tek_ut__objects_found __attribute__((visibility("hidden")));

/* Runs all probes. Idempotent. */
void tek_ut__objects_find(void);

static inline const struct tek_objects *tek_ut__objects(void)
{
	if (__builtin_expect(
		    !atomic_load_explicit(&tek_ut__objects_found.known, memory_order_acquire), 0))
		tek_ut__objects_find();
	return &tek_ut__objects_found;
}

#endif
