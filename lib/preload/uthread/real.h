/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of the C library behind the symbols of libtek-uthread.so. */
#ifndef TEK_PRELOAD_UTHREAD_REAL_H
#define TEK_PRELOAD_UTHREAD_REAL_H

#include "base/next.h"

#define TEK_EXPORT __attribute__((visibility("default")))

/*
 * TEK_REAL(read)(file, bytes, size): the next definition of a function after ours.  Looked up at
 * the first call from each place, so it works before any constructor has run.
 */
#define TEK_REAL(name) \
	({ \
		static void *function; \
		void *found = __atomic_load_n(&function, __ATOMIC_RELAXED); \
		if (!found) { \
			found = tek__next_definition(#name); \
			__atomic_store_n(&function, found, __ATOMIC_RELAXED); \
		} \
		(__typeof__(&name))found; \
	})

#endif
