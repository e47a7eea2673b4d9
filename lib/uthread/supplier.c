/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/supplier.h"

#include "uthread/carrier.h"
#include "uthread/kernel_thread.h"
#include "uthread/monitor.h"
#include "uthread/spares.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number of carriers to have ready. */
#define SPARES 1

/* After a failure to make one: the time until the next attempt. */
#define REFUSED_NS 1000000

static atomic_uint called;
static atomic_int supplier;  /* its tid; 0: it does not run */
static atomic_uint starting; /* have been begun and have not arrived yet */
static atomic_bool refused;  /* the last one could not be made */

/* Carriers enter the engine at once: none is made before a second kernel thread is there. */
static bool any_missing(void)
{
	return tek_ut__parallel() && tek_ut__carrier_spares() + atomic_load(&starting) < SPARES;
}

void tek_ut__supplier_check(void)
{
	if (any_missing() && !atomic_exchange(&called, 1))
		syscall(SYS_futex, &called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

struct tek_uthread *tek_ut__next_stopped(struct tek_worker *worker,
					 const struct tek_uthread *running)
{
	struct tek_fifo remaining = {NULL, NULL};
	struct tek_uthread *next, *other;

	while ((next = tek_ut__next(worker, running, TEK_READY_PREEMPTED)) && !next->carrier)
		tek_ut__fifo_add(&remaining, next);
	while ((other = tek_ut__fifo_take(&remaining)))
		tek_ut__ready(other, TEK_READY_PREEMPTED);
	return next;
}

/*
 * Whether the kernel state of this kernel thread, which new ones inherit, is still the process's.
 */
static bool is_current(unsigned int generation)
{
	return generation == atomic_load(&tek_ut__carrier_generation);
}

static void make_spares(unsigned int generation)
{
	const struct timespec moment = {.tv_nsec = REFUSED_NS};

	while (is_current(generation) && any_missing()) {
		atomic_fetch_add(&starting, 1);
		const bool fails = tek_ut__carrier_start(NULL, generation) != 0;
		atomic_store(&refused, fails);
		if (fails) {
			atomic_fetch_sub(&starting, 1);
			syscall(SYS_nanosleep, &moment, NULL);
			break;
		}
	}
}

bool tek_ut__supplier_is_refused(void)
{
	return atomic_load(&refused);
}

void tek_ut__supplier_has_made_one(void)
{
	atomic_fetch_sub(&starting, 1);
	tek_ut__monitor_wake();   /* it may be waiting for it */
	tek_ut__supplier_check(); /* a thread may have taken it while it still counted as coming */
}

static void *supply(void *argument)
{
	const unsigned int generation = (unsigned int)(uintptr_t)argument;

	tek_ut__here_find()->defer = 1;
	atomic_store(&supplier, (pid_t)syscall(SYS_gettid));
	tek_ut__kernel_thread_has_begun();
	for (;;) {
		make_spares(generation);
		if (!atomic_load(&called))
			syscall(SYS_futex, &called, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		/* In this order: the call that stops it is not lost. */
		atomic_store(&called, 0);
		if (!is_current(generation))
			return NULL;
	}
}

static int start(void)
{
	const unsigned int generation = atomic_load(&tek_ut__carrier_generation);

	return tek_ut__kernel_thread(supply, (void *)(uintptr_t)generation);
}

/* Carriers that the previous supplier has begun still arrive. */
int tek_ut__supplier_start_again(void)
{
	return start();
}

int tek_ut__supplier_start(void)
{
	atomic_store(&starting, 0); /* a child of fork() has none of them */
	atomic_store(&supplier, 0);
	return start();
}

pid_t tek_ut__supplier_stop(void)
{
	tek_ut__kernel_threads_await_ids();
	const pid_t tid = atomic_exchange(&supplier, 0);

	atomic_store(&called, 1);
	syscall(SYS_futex, &called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return tid;
}
