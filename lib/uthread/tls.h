/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Thread-local storage of their own for user-level threads, as the C library's threads have it:
 * errno, __thread variables, the locale, the cache of malloc(3) are each thread's, wherever it
 * runs.
 *
 * The loader makes the blocks (tls_block.h); switching to another one is one instruction where the
 * processor and the kernel allow it, else a system call.  x86-64 and aarch64 with glibc 2.34 or
 * later; elsewhere threads share their worker's.
 *
 *   tek_ut__tls_give()            a new thread has storage
 *   tek_ut__tls_begin_current()   by it, before it does anything of the program
 *   tek_ut__tls_end_current()     by it, when it ends
 *   tek_ut__tls_take()            its storage can be used again
 *
 * Free blocks are in a pool of the worker, up to TEK_TLS_POOL of them, and the rest in one global
 * pool; they are never given back.
 */
#ifndef TEK_UTHREAD_TLS_H
#define TEK_UTHREAD_TLS_H

#include "uthread/thread.h"

#include <stdbool.h>

#define TEK_TLS_POOL 64

/* Whether it is available here; tries it once. By the first thread, before there are more. */
bool tek_ut__tls_available(void);

/*
 * The next tek_ut__tls_give() by the calling thread will need no memory and no lock but the
 * engine's. Not between tek_ut__enter() and tek_ut__leave(): it may wait there for a thread that
 * was preempted in malloc(3), in mode klt. Without this call tek_ut__tls_give() does the same
 * itself. 0 or ENOMEM.
 */
int tek_ut__tls_reserve(void);

/*
 * Gives `thread`, which has a known stack, storage: its `tls`, `here`, `own_tls`. 0 or ENOMEM.
 * Between tek_ut__enter() and tek_ut__leave().
 */
int tek_ut__tls_give(struct tek_uthread *thread);

/* By a new thread, or a carrier's own context with given storage, before it calls the C library. */
void tek_ut__tls_begin_current(void);

/*
 * By a thread that ends: destructors of thread_local objects. Before those of keys, and again after
 * them, because those may have made such objects, too. The next thread with the storage would
 * destroy the rest.
 */
void tek_ut__tls_end_current(void);

/*
 * It has ended: its storage can be used again. Nothing if it was adopted. Between tek_ut__enter()
 * and tek_ut__leave().
 */
void tek_ut__tls_take(struct tek_uthread *thread);

/*
 * For the first thread, and carriers: the storage that they have, which is that of the calling
 * kernel thread. From then on the kernel does not write the CPU of that kernel thread to memory
 * (rseq(2)): the threads that run on it have other storage, and the thread with this storage runs
 * elsewhere.
 */
void tek_ut__tls_adopt(struct tek_uthread *thread);

/* A carrier ends. By its kernel thread. */
void tek_ut__tls_unadopt(struct tek_uthread *thread);

/*
 * A library has been loaded or unloaded: after dlopen(3), by the thread that called it, and
 * dlclose(3).  Variables of the library that lie in each thread's block get their first values in
 * all of them.  Not between tek_ut__enter() and tek_ut__leave().
 */
void tek_ut__tls_libraries_changed(void);

/* In the child of fork(), by the thread that forked. */
void tek_ut__tls_after_fork(void);

/* Sets the thread pointer. */
static inline void tek_ut__tls_switch(uintptr_t pointer)
{
#if defined(__x86_64__)
	extern bool tek_ut__tls_by_system_call __attribute__((visibility("hidden")));
	void tek_ut__tls_switch_by_system_call(uintptr_t);
	if (__builtin_expect(tek_ut__tls_by_system_call, 0))
		tek_ut__tls_switch_by_system_call(pointer);
	else
		__asm__ volatile("wrfsbase %0" : : "r"(pointer) : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("msr tpidr_el0, %0" : : "r"(pointer) : "memory");
#else
	(void)pointer;
#endif
}

#endif
