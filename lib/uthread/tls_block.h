/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Blocks of thread-local storage: made by the loader, filled in as the C library does for its
 * threads, used by one thread after the other, and never given back.
 *
 * Never, because the C library's own variables in it hold malloc's cache and arena of "this
 * thread". Only the end of that thread releases these. So they stay as they are from thread to
 * thread. State that a new thread must not see of an old one (errno, its locale, an error of
 * dlopen) is reset one by one. All other modules' variables get their first values.
 *
 * The loader, and setuid(2) and its like, do not know of these threads: the C library's list of
 * threads has only kernel threads. See tls_libraries.c and setxid.h.
 */
#ifndef TEK_UTHREAD_TLS_BLOCK_H
#define TEK_UTHREAD_TLS_BLOCK_H

#include "uthread/tls_layout.h"

#include <resolv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tek_tls {
	uintptr_t pointer;        /* the thread pointer; 0: storage that is not the engine's */
	struct tek_tls *next;     /* in a pool */
	unsigned int depth;       /* of the pool of a worker, from here on */
	struct tek_tls *all_next; /* of all blocks */
	struct tek_tls *spare; /* for the next thread that this one makes: tek_ut__tls_reserve() */
	const struct tek_tls_layout *layout; /* of its variables */
	size_t generation;                   /* of its vector, when that was new */
	int id;                              /* in place of a kernel thread's */
	struct __res_state resolver;
};

/* A new one, clean; NULL: no memory. Not listed yet. */
struct tek_tls *tek_ut__tls_block_make(const struct tek_tls_layout *layout);

/* One that was never used. */
void tek_ut__tls_block_drop(struct tek_tls *block);

/* Whether memory of its own has to be given back before another thread uses it. */
bool tek_ut__tls_block_is_outgrown(const struct tek_tls *block);

/*
 * Does so, and gives all variables but the C library's their first values. False: no memory, the
 * block is lost.
 */
bool tek_ut__tls_block_renew(struct tek_tls *block);

/* Prepares it for a new thread, on a stack of `stack_bytes` from `stack` up. It is not outgrown. */
void tek_ut__tls_block_clean(struct tek_tls *block, const void *stack, size_t stack_bytes);

#endif
