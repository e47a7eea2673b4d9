/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's own lock, for a few instructions at a time.
 *
 * The locking thread defers preemption (uthread/here.h), so the holder is on a CPU unless the
 * kernel has preempted it. A waiter that spins in vain for a while yields to the kernel. An engine
 * of one kernel thread needs none of that: tek_ut__parallel() is false.
 *
 * Order: the loads after an acquire cannot go before it, because the exchange acquires. The stores
 * before a release cannot go after it, because the store releases.
 */
#ifndef TEK_UTHREAD_SPIN_H
#define TEK_UTHREAD_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Whether more than one kernel thread can be in the engine. Once true it stays true: parallel.h. */
extern atomic_bool tek_ut__parallel_now __attribute__((visibility("hidden")));

static inline bool tek_ut__parallel(void)
{
	return atomic_load_explicit(&tek_ut__parallel_now, memory_order_relaxed);
}

struct tek_spin {
	atomic_uint held;
};

#define TEK_SPIN_TRIES 200

static inline void tek_ut__relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/*
 * All stores before it are seen before any load behind it is made. ThreadSanitizer does not know
 * fences; those here order atomic variables, about which it does not complain.
 */
static inline void tek_ut__fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
	atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

void tek_ut__spin_wait(struct tek_spin *spin);

static inline bool tek_ut__spin_try(struct tek_spin *spin)
{
	if (__builtin_expect(!tek_ut__parallel(), 1))
		return true;
	return !atomic_exchange_explicit(&spin->held, 1, memory_order_acquire);
}

static inline void tek_ut__spin_lock(struct tek_spin *spin)
{
	if (__builtin_expect(!tek_ut__spin_try(spin), 0))
		tek_ut__spin_wait(spin);
}

static inline void tek_ut__spin_unlock(struct tek_spin *spin)
{
	if (__builtin_expect(tek_ut__parallel(), 0))
		atomic_store_explicit(&spin->held, 0, memory_order_release);
}

/* The atomic operations of the engine: plain ones where there is one kernel thread. */
static inline unsigned int tek_ut__swap(atomic_uint *word, unsigned int value)
{
	if (__builtin_expect(tek_ut__parallel(), 0))
		return atomic_exchange(word, value);
	unsigned int old = atomic_load_explicit(word, memory_order_relaxed);
	atomic_store_explicit(word, value, memory_order_relaxed);
	return old;
}

/* If *word is `from` it becomes `to`; returns whether it did. */
static inline bool tek_ut__change(atomic_uint *word, unsigned int from, unsigned int to)
{
	if (__builtin_expect(tek_ut__parallel(), 0))
		return atomic_compare_exchange_strong(word, &from, to);
	if (__builtin_expect(atomic_load_explicit(word, memory_order_relaxed) != from, 0))
		return false;
	atomic_store_explicit(word, to, memory_order_relaxed);
	return true;
}

#endif
