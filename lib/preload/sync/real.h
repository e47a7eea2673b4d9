/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions behind the symbols of libtek-sync.so: the C library's, or those of
 * libtek-uthread.so.
 */
#ifndef TEK_PRELOAD_SYNC_REAL_H
#define TEK_PRELOAD_SYNC_REAL_H

#include "base/next.h"

#define TEK_EXPORT __attribute__((visibility("default")))

/*
 * TEK_REAL(pthread_mutex_lock)(mutex): the next definition of a function after ours.  Looked up at
 * the first call from each place, so it works before any constructor has run.
 */
#define TEK_REAL(name) \
	({ \
		static void *function; \
		void *found = __atomic_load_n(&function, __ATOMIC_RELAXED); \
		if (__builtin_expect(!found, 0)) { \
			found = tek__next_definition(#name); \
			__atomic_store_n(&function, found, __ATOMIC_RELAXED); \
		} \
		(__typeof__(&name))found; \
	})

#endif
