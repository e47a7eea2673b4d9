/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/setxid.h"

#include "uthread/reserved.h"
#include "uthread/spin.h"
#include "uthread/tls.h"
#include "uthread/tls_glibc.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNALS = 64 };

/* The kernel's struct; sigaction(3) rejects these signals. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

struct kernel_thread {
	atomic_int tid; /* 0: it has ended */
	_Atomic uintptr_t pointer;
	struct kernel_thread *next;
	struct kernel_thread *next_ended;
};

/* A list that only grows, so that a signal handler can walk it. */
static struct kernel_thread *_Atomic kernel_threads;
static void (*_Atomic behind[SIGNALS + 1])(int, siginfo_t *, void *); /* the C library's handlers */

/* Structures that can be reused. */
static struct {
	struct tek_spin lock;
	struct kernel_thread *first;
} ended;

/* In the storage of the kernel thread. */
static __thread struct kernel_thread *mine __attribute__((tls_model("initial-exec")));

static void list(struct kernel_thread *thread)
{
	thread->next = atomic_load(&kernel_threads);
	while (!atomic_compare_exchange_weak(&kernel_threads, &thread->next, thread))
		;
}

static struct kernel_thread *take_ended(void)
{
	tek_ut__spin_lock(&ended.lock);
	struct kernel_thread *thread = ended.first;
	if (thread)
		ended.first = thread->next_ended;
	tek_ut__spin_unlock(&ended.lock);
	return thread;
}

static struct kernel_thread *make(void)
{
	struct kernel_thread *thread = calloc(1, sizeof(*thread));

	if (!thread)
		abort(); /* without it setuid() would never return */
	list(thread);
	return thread;
}

void tek_ut__setxid_kernel_thread(uintptr_t pointer)
{
	mine = take_ended();
	if (!mine)
		mine = make();
	atomic_store(&mine->pointer, pointer);
	atomic_store(&mine->tid, (int)syscall(SYS_gettid));
	tek_ut__setxid_start();
}

void tek_ut__setxid_forget(void)
{
	atomic_store(&mine->tid, 0);
	tek_ut__spin_lock(&ended.lock);
	mine->next_ended = ended.first;
	ended.first = mine;
	tek_ut__spin_unlock(&ended.lock);
}

static uintptr_t pointer_of_kernel_thread(void)
{
	const int tid = (int)syscall(SYS_gettid);

	for (struct kernel_thread *thread = atomic_load(&kernel_threads); thread;
	     thread = thread->next)
		if (atomic_load(&thread->tid) == tid)
			return atomic_load(&thread->pointer);
	return 0;
}

/* All signals are blocked meanwhile: no other code finds the storage exchanged. */
static void handle(int number, siginfo_t *info, void *context)
{
	const uintptr_t current = tek_ut__tls_pointer(), its = pointer_of_kernel_thread();
	void (*handler)(int, siginfo_t *, void *) = atomic_load(&behind[number]);

	if (its && its != current)
		tek_ut__tls_switch(its);
	handler(number, info, context);
	if (its && its != current)
		tek_ut__tls_switch(current);
}

static void come_before(int number)
{
	struct kernel_action action;

	if (syscall(SYS_rt_sigaction, number, NULL, &action, sizeof(action.mask)) ||
	    !action.handler || action.handler == handle || !(action.flags & SA_SIGINFO))
		return;
	atomic_store(&behind[number], action.handler);
	action.handler = handle;
	action.mask = ~(uint64_t)0;
	syscall(SYS_rt_sigaction, number, &action, NULL, sizeof(action.mask));
}

void tek_ut__setxid_start(void)
{
	const uint64_t signals = tek_ut__reserved_signals() & ~TEK_TICK_BIT;

	if (!atomic_load(&kernel_threads))
		return;
	for (int number = TEK_RESERVED_FIRST; number <= SIGNALS; number++)
		if (signals >> (number - 1) & 1)
			come_before(number);
}

void tek_ut__setxid_after_fork(uintptr_t pointer)
{
	struct kernel_thread *only = atomic_load(&kernel_threads);

	if (!only)
		return;
	atomic_store(&only->tid, (int)syscall(SYS_gettid));
	atomic_store(&only->pointer, pointer);
	only->next = NULL;
	mine = only;
	ended.first = NULL;
	atomic_store(&ended.lock.held, 0);
}
