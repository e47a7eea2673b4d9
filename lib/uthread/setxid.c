/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/setxid.h"

#include "uthread/tls.h"
#include "uthread/tls_glibc.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNAL = 33 };

/* As the kernel has it; sigaction(3) does not let anybody have this signal. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

struct kernel_thread {
	int tid;
	uintptr_t pointer;
	struct kernel_thread *next;
};

/* A list that only grows, so that a signal handler can walk it. */
static struct kernel_thread *_Atomic kernel_threads;
static void (*_Atomic behind)(int, siginfo_t *, void *); /* the C library's handler */

static void list(struct kernel_thread *thread)
{
	thread->next = atomic_load(&kernel_threads);
	while (!atomic_compare_exchange_weak(&kernel_threads, &thread->next, thread))
		;
}

void tek__setxid_kernel_thread(uintptr_t pointer)
{
	struct kernel_thread *thread = malloc(sizeof(*thread));

	if (!thread)
		abort(); /* without it setuid() would never return */
	thread->tid = (int)syscall(SYS_gettid);
	thread->pointer = pointer;
	list(thread);
	tek__setxid_start();
}

static uintptr_t pointer_of_kernel_thread(void)
{
	const int tid = (int)syscall(SYS_gettid);

	for (struct kernel_thread *thread = atomic_load(&kernel_threads); thread;
	     thread = thread->next)
		if (thread->tid == tid)
			return thread->pointer;
	return 0;
}

/* All signals are blocked meanwhile: nobody else finds the storage exchanged. */
static void handle(int number, siginfo_t *info, void *context)
{
	const uintptr_t mine = tek__tls_pointer(), its = pointer_of_kernel_thread();
	void (*handler)(int, siginfo_t *, void *) = atomic_load(&behind);

	if (its && its != mine)
		tek__tls_switch(its);
	handler(number, info, context);
	if (its && its != mine)
		tek__tls_switch(mine);
}

void tek__setxid_start(void)
{
	struct kernel_action action;

	if (!atomic_load(&kernel_threads) ||
	    syscall(SYS_rt_sigaction, SIGNAL, NULL, &action, sizeof(action.mask)) ||
	    !action.handler || action.handler == handle)
		return;
	atomic_store(&behind, action.handler);
	action.handler = handle;
	action.mask = ~(uint64_t)0;
	syscall(SYS_rt_sigaction, SIGNAL, &action, NULL, sizeof(action.mask));
}

void tek__setxid_after_fork(uintptr_t pointer)
{
	struct kernel_thread *only = atomic_load(&kernel_threads);

	if (!only)
		return;
	only->tid = (int)syscall(SYS_gettid);
	only->pointer = pointer;
	only->next = NULL;
}
