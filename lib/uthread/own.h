/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The state of synchronisation objects and keys for each thread that uses them, and only for those:
 * the values of keys, the robust mutexes it holds, the priority that it goes back to.
 *
 * A user-level thread's state is in struct tek_uthread.keys, a kernel thread's in a thread-local
 * variable. Only the thread itself makes it, and it is gone when the thread has ended.
 *
 * Its memory comes from blocks that are mapped and never given back, not from malloc(3): allocators
 * use keys themselves, in the middle of an allocation.
 */
#ifndef TEK_UTHREAD_OWN_H
#define TEK_UTHREAD_OWN_H

#include "uthread/here.h"
#include "uthread/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define TEK_KEYS 1024 /* PTHREAD_KEYS_MAX of glibc */
#define TEK_KEYS_A_BLOCK 32

struct tek_mutex;
struct tek_mutex_more;

/* The value of a key. It counts only while the key has the same generation. */
struct tek_value {
	uintptr_t generation;
	void *data;
};

struct tek_values {
	struct tek_value value[TEK_KEYS_A_BLOCK];
};

struct tek_own {
	struct tek_values *values[TEK_KEYS / TEK_KEYS_A_BLOCK];
	unsigned int blocks;        /* the number of them */
	struct tek_uthread *thread; /* NULL: a kernel thread */

	/* inherit.c, under its lock. */
	struct tek_mutex_more *held; /* mutexes that are robust or have a protocol */
	bool raised;                 /* they may have raised its priority */
	signed char base;            /* if so: its priority without them */
	struct tek_mutex *waits_for; /* a mutex that inherits; NULL: none */
	struct tek_own *waits_next;  /* of the waiters for the same one */
};

extern __thread struct tek_own *tek_ut__own_of_kernel_thread
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The calling thread's; NULL: it has none yet. */
static inline struct tek_own *tek_ut__own(void)
{
	struct tek_uthread *self = tek_ut__here_self();
	return self ? self->keys : tek_ut__own_of_kernel_thread;
}

/* The calling thread's, made if there is none; NULL: there is no memory. Not deferred. */
struct tek_own *tek_ut__own_made(void);

/* A block for values of the calling thread, all zero; NULL: there is no memory. Not deferred. */
struct tek_values *tek_ut__own_block(void);

/* Releases the calling thread's state. Not deferred. */
void tek_ut__own_drop(void);

/* In the child of fork(): no other thread is in the middle of anything here, nor in inherit.c. */
void tek_ut__own_after_fork(void);

/*
 * The calling kernel thread becomes this user-level thread, the first one. By the engine's start.
 */
void tek_ut__own_adopt(struct tek_uthread *first);

/*
 * The owner of a mutex. A user-level thread is known by its address, a kernel thread by the address
 * of data of its own, which is odd.
 */
uintptr_t tek_ut__kernel_thread_id(void);

static inline uintptr_t tek_ut__me(void)
{
	uintptr_t self = (uintptr_t)tek_ut__here_self();
	return __builtin_expect(self != 0, 1) ? self : tek_ut__kernel_thread_id();
}

#endif
