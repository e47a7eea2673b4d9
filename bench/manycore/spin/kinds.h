/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The locks that spin compares: TEK's, the C library's, and Concurrency Kit's where that is
 * installed.
 */
#ifndef MANYCORE_SPIN_KINDS_H
#define MANYCORE_SPIN_KINDS_H

#include <pthread.h>
#include <stdbool.h>

#include "sync/lock.h"

/* One of them, alone in its cache lines; zero at first, then `init`. */
struct spin_object {
	union {
		struct tek_lock tek;
		pthread_mutex_t mutex;
		pthread_spinlock_t spin;
		void *other[8];
	};
} __attribute__((aligned(128)));

/*
 * Each is called through a pointer, so that none has an advantage by being inlined.  Both return 0.
 */
struct spin_kind {
	const char *name;
	void (*init)(struct spin_object *object); /* NULL: it is ready */
	int (*lock)(struct spin_object *object);
	int (*unlock)(struct spin_object *object);
};

/* How many there are; *kinds is theirs. */
unsigned int spin_kinds(const struct spin_kind **kinds);

#endif
