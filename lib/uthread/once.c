/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/once.h"

#include "uthread/wait.h"
#include "uthread/worker.h"

#include <stdint.h>

#define QUEUES 64 /* a power of 2 */

/*
 * A routine runs: with this bit, and above it the number of forks of the process and its ancestors.
 */
#define RUNNING 1
#define FORKS_UNIT 4

static struct queue {
	struct tek_spin lock;
	struct tek_waiters waiters;
} queues[QUEUES];

static atomic_int forks;

static struct queue *queue_of(const atomic_int *control)
{
	uintptr_t address = (uintptr_t)control;
	return &queues[(address / sizeof(*control) ^ address >> 12) % QUEUES];
}

static int running_now(void)
{
	return atomic_load_explicit(&forks, memory_order_relaxed) * FORKS_UNIT | RUNNING;
}

/* All in the queue: some of them wait for other words, and go back to sleep. */
static void wake_all(struct queue *queue)
{
	tek_ut__enter();
	tek_ut__spin_lock(&queue->lock);
	while (tek_ut__wake_first(&queue->waiters))
		;
	tek_ut__spin_unlock(&queue->lock);
	tek_ut__leave();
}

static void finish(atomic_int *control, int result)
{
	struct queue *queue = queue_of(control);

	/*
	 * Release: a thread that finds it done sees what the routine did. The control may be freed;
	 * the queue stays.
	 */
	atomic_store_explicit(control, result, memory_order_release);
	wake_all(queue);
}

/* The routine is left: by an exception or the end of its thread, unless it is done. */
static void unwind(atomic_int **control)
{
	if (*control)
		finish(*control, 0);
}

static void run(atomic_int *control, void (*routine)(void))
{
	__attribute__((cleanup(unwind))) atomic_int *unfinished = control;

	routine();
	unfinished = NULL;
	finish(control, TEK_ONCE_DONE);
}

/* Until the word has changed. */
static void wait(atomic_int *control, int running)
{
	struct queue *queue = queue_of(control);
	struct tek_waiter waiter;

	tek_ut__waiter_init(&waiter);
	tek_ut__enter();
	tek_ut__spin_lock(&queue->lock);
	bool waits = atomic_load_explicit(control, memory_order_relaxed) == running;
	if (waits)
		tek_ut__waiters_add(&queue->waiters, &waiter);
	tek_ut__spin_unlock(&queue->lock);
	if (waits)
		tek_ut__wait(&waiter, NULL, TEK_WAITS_ONCE);
	tek_ut__leave();
}

void tek_ut__once(atomic_int *control, void (*routine)(void))
{
	for (;;) {
		int now = atomic_load_explicit(control, memory_order_acquire);
		int running = running_now();
		if (now == TEK_ONCE_DONE)
			return;
		if (now == running) {
			wait(control, running);
		} else if (atomic_compare_exchange_strong(control, &now, running)) {
			run(control, routine);
			return;
		}
	}
}

void tek_ut__once_after_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
	for (int i = 0; i < QUEUES; i++)
		queues[i] = (struct queue){.lock = {0}};
}
