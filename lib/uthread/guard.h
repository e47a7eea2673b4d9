/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lock within each synchronisation object: one bit of the object's state word.
 *
 * So one store releases the lock and publishes the new state, and it is the last access to the
 * object. A thread that unlocks a mutex must not touch it afterwards: the next owner may have
 * unlocked, destroyed and freed it by then. A lock beside the state could not do that.
 *
 * As with struct tek_spin, the locking thread has deferred preemption (worker.h). With
 * tek_ut__parallel() false that suffices: the bit is never set.
 *
 * While the bit is set only its holder writes the word. Every other thread changes the word by
 * compare-and-exchange from a value without the bit, or waits for the bit.
 */
#ifndef TEK_UTHREAD_GUARD_H
#define TEK_UTHREAD_GUARD_H

#include "uthread/parallel.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * These functions may be used without tek_ut__enter(). While tek_ut__parallel() is false they use
 * plain instructions in a restartable sequence: it reads the flag, whether the caller has entered,
 * and the word; its last instruction writes the word. A signal in between restarts the sequence:
 * parallel.h.
 *
 * They load and store: a pair of mutex operations takes 2.1 ns so, and 3.9 ns with
 * read-modify-write instructions (Sapphire Rapids).
 */
#if defined(__x86_64__)

#define TEK_RESTARTABLE 1

/* A restartable sequence, in the section tek_restartable. */
struct tek_restartable {
	int32_t begin;  /* its address, relative to here */
	uint32_t bytes; /* up to its last instruction, which does the store */
};

/* Jumps to the labels `several` and `stranger`; clobbers rax. */
#define TEK_RESTARTABLE_BEGIN \
	"1:\tcmpb $0, %[parallel]\n\t" \
	"jne %l[several]\n\t" \
	"movq tek_ut__here@gottpoff(%%rip), %%rax\n\t" \
	"cmpq $0, %%fs:%c[entry](%%rax)\n\t" \
	"je %l[stranger]\n\t"
/* Before the last instruction, which has the label 2. */
#define TEK_RESTARTABLE_END \
	".pushsection tek_restartable, \"a\"\n\t" \
	".balign 4\n\t" \
	".long 1b - ., 2f - 1b\n\t" \
	".popsection\n"
#define TEK_RESTARTABLE_INPUTS \
	[parallel] "m"(tek_ut__parallel_now), [entry] "i"(offsetof(struct tek_here, entry))

#else

#define TEK_RESTARTABLE 0

#endif

/*
 * If *word is `from` it becomes `to`; returns whether it did. Order: acquire and release, as both
 * uses need one of them. tek_ut__change_quickly() may also return false to a kernel thread that has
 * not entered yet: that thread has a slow path then, and this path needs no frame.
 */
static inline bool tek_ut__change_quickly(atomic_uint *word, unsigned int from, unsigned int to)
{
#if TEK_RESTARTABLE
	__asm__ goto(TEK_RESTARTABLE_BEGIN "cmpl %[from], %[word]\n\t"
					   "jne %l[does_not]\n\t" TEK_RESTARTABLE_END
					   "2:\tmovl %[to], %[word]"
		     :
		     : [word] "m"(*word), [from] "ri"(from), [to] "r"(to), TEK_RESTARTABLE_INPUTS
		     : "rax", "memory", "cc"
		     : several, stranger, does_not);
	return true;
stranger:
does_not:
	return false;
several:
#endif
	return atomic_compare_exchange_strong_explicit(word, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

static inline bool tek_ut__change_unsplit(atomic_uint *word, unsigned int from, unsigned int to)
{
	if (__builtin_expect(tek_ut__come_in(), 1))
		return tek_ut__change_quickly(word, from, to);
	return atomic_compare_exchange_strong_explicit(word, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

/*
 * Before an atomic instruction that follows right after a call: it takes a fifth less (Sapphire
 * Rapids: 29 cycles instead of 36) if another store than that of the return address precedes it.
 */
static inline void tek_ut__store_something(void)
{
#if defined(__x86_64__)
	__attribute__((unused)) volatile unsigned int something = 0;
#endif
}

/* tek_ut__set_lowest_quickly() where several threads may do it at the same time. */
static inline bool tek_ut__set_lowest_among_several(atomic_uint *word, unsigned int guard)
{
	unsigned int state = 0;

	tek_ut__store_something();
	/* This mostly succeeds: to read the word first would take longer. */
	if (__builtin_expect(atomic_compare_exchange_strong_explicit(
				     word, &state, 1, memory_order_acquire, memory_order_relaxed),
			     1))
		return true;
	return !(state & (guard | 1)) &&
	       atomic_compare_exchange_strong_explicit(word, &state, state | 1,
						       memory_order_acquire, memory_order_relaxed);
}

/*
 * Sets the lowest bit if that bit is clear, and `guard` is clear too where several threads may hold
 * it; returns whether it did. The other bits stay. Order: acquire. For a kernel thread that has not
 * entered: as tek_ut__change_quickly().
 */
static inline bool tek_ut__set_lowest_quickly(atomic_uint *word, unsigned int guard)
{
#if TEK_RESTARTABLE
	__asm__ goto(TEK_RESTARTABLE_BEGIN "movl %[word], %%eax\n\t"
					   "btsl $0, %%eax\n\t"
					   "jc %l[does_not]\n\t" TEK_RESTARTABLE_END
					   "2:\tmovl %%eax, %[word]"
		     :
		     : [word] "m"(*word), TEK_RESTARTABLE_INPUTS
		     : "rax", "memory", "cc"
		     : several, stranger, does_not);
	return true;
stranger:
does_not:
	return false;
several:
#endif
	return tek_ut__set_lowest_among_several(word, guard);
}

/* Until another thread has cleared the bit. */
void tek_ut__guard_wait(atomic_uint *word, unsigned int bit);

/*
 * fork(): a guard that another thread holds at that time would stay set in the child for ever, with
 * the object half changed. So the thread that forks closes all guards: it waits until no thread
 * holds one. Until they are open again only a thread that already holds a guard gets another.
 *
 * The thread that takes a guard counts it and then checks whether guards are closed. The closing
 * thread sets the flag, makes all CPUs pass a memory barrier (membarrier(2)), and then reads the
 * counts: one of the two sees the other.
 */
extern atomic_uint tek_ut__guards_closed __attribute__((visibility("hidden")));

void tek_ut__guards_await(struct tek_worker *worker);
void tek_ut__guards_count_kernel_thread(void);
void tek_ut__guards_uncount_kernel_thread(void);

/* Around each section under a guard, with tek_ut__parallel() true. Deferred. */
static inline void tek_ut__guard_enter(void)
{
	struct tek_worker *worker = tek_ut__here_worker();

	if (__builtin_expect(!worker, 0)) {
		tek_ut__guards_count_kernel_thread();
		return;
	}
	unsigned int outer = atomic_load_explicit(&worker->guards, memory_order_relaxed);
	atomic_store_explicit(&worker->guards, outer + 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&tek_ut__guards_closed, memory_order_relaxed),
			     0) &&
	    !outer)
		tek_ut__guards_await(worker);
}

static inline void tek_ut__guard_leave(void)
{
	struct tek_worker *worker = tek_ut__here_worker();

	if (__builtin_expect(!worker, 0)) {
		tek_ut__guards_uncount_kernel_thread();
		return;
	}
	unsigned int count = atomic_load_explicit(&worker->guards, memory_order_relaxed);
	/* Release: a thread that reads a count of 0 sees all writes made under the guard. */
	atomic_store_explicit(&worker->guards, count - 1, memory_order_release);
}

/*
 * Before a fork by the calling thread: tek_ut__enter(), and closes the guards, after other threads
 * that are about to fork. In the parent and in the child: opens them again.
 */
void tek_ut__guards_enter_and_close(void);
void tek_ut__guards_open(void);
void tek_ut__guards_after_fork(void);

/* Takes the bit; returns the word without it. */
static inline unsigned int tek_ut__guard_lock(atomic_uint *word, unsigned int bit)
{
	if (__builtin_expect(!tek_ut__parallel(), 1))
		return atomic_load_explicit(word, memory_order_relaxed);
	unsigned int old;
	tek_ut__guard_enter();
	while (__builtin_expect(
		(old = atomic_fetch_or_explicit(word, bit, memory_order_acquire)) & bit, 0))
		tek_ut__guard_wait(word, bit);
	return old;
}

/* Releases the bit: the word becomes `value`, which does not have the bit. */
static inline void tek_ut__guard_unlock(atomic_uint *word, unsigned int value)
{
	/* Release: all writes under the bit come before. */
	atomic_store_explicit(word, value, memory_order_release);
	if (__builtin_expect(tek_ut__parallel(), 0))
		tek_ut__guard_leave();
}

#endif
