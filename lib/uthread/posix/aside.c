/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/aside.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/parallel.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/record.h"
#include "uthread/preempt.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

/* The longest wait for a carrier that is being made. */
#define BEING_MADE_NS 10000000

/* The patience of a thread: so often it yields, and then so often it pauses. */
#define YIELDS 20
#define PAUSES 20

/* The length of a pause between polls: twice as long each time. */
#define FIRST_PAUSE_NS 50000
#define DOUBLINGS 6

/* No carrier was available for the worker. */
static void take_back(struct tek_worker *worker)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = tek_ut__here_carrier();

	atomic_store(&carrier->detached, NULL);
	atomic_store(&carrier->aside, false);
	tek_ut__carrier_unpin(self);
	worker->kernel_mask = carrier->context.mask;
	atomic_store(&worker->carrier, carrier);
	tek_ut__set_current(worker, self);
	tek_ut__carrier_set_worker(tek_ut__here_find(), worker);
	tek_ut__preempt_gain(worker, carrier);
	tek_ut__after_switch(worker); /* a kick meanwhile found no thread */
}

/* The kernel thread that makes a carrier if there is no spare one. */
enum maker {
	CALLER,
	/*
	 * With KLT preemption only the supplier: a stopped thread may hold a lock of the C library
	 * that making one takes. The same for a bound thread: the new one would inherit its kernel
	 * state. The same for a thread that may be inside an allocator, which must not be entered
	 * again.
	 */
	SUPPLIER,
	SUPPLIER_LATER, /* the caller does not wait for it */
};

/* Returns whether it has left its worker. */
static bool step_aside(struct tek_worker *worker, enum maker maker)
{
	struct tek_carrier *spare = maker == SUPPLIER ? tek_ut__carrier_spare_soon(BEING_MADE_NS)
						      : tek_ut__carrier_spare();

	if (maker != CALLER)
		tek_ut__supplier_check(); /* for the next time */
	if (!spare && maker != CALLER)
		return false;
	tek_ut__carrier_leave_worker(worker, true);
	if (spare) {
		tek_ut__carrier_give_worker(spare, worker);
	} else if (tek_ut__carrier_start(worker, tek_ut__here_carrier()->generation) != 0) {
		take_back(worker);
		return false;
	}
	return true;
}

static __attribute__((noinline)) int get_errno(void)
{
	return errno;
}

static __attribute__((noinline)) void set_errno(int error)
{
	errno = error;
}

static bool begin(enum maker maker)
{
	void tek_ut__leave_pending(void); /* worker.h */
	const int error = get_errno();
	bool is_aside;

	tek_ut__posix_self()->aside = true;
	/* There will be two kernel threads in the engine, and the asking one is the carrier. */
	if (!tek_ut__parallel())
		tek_ut__parallel_grant();
	for (;;) {
		is_aside = step_aside(tek_ut__enter(), maker);
		if (!tek_ut__here_undefer())
			break;
		/* A pending event has to be handled first, on a worker. */
		tek_ut__leave_pending();
	}
	set_errno(error);
	return is_aside;
}

static enum maker maker_at_once(void)
{
	return tek_ut__engine.preempt == TEK_PREEMPT_KLT || tek_ut__here_self()->bound ? SUPPLIER
										       : CALLER;
}

void tek_ut__aside_begin(void)
{
	if (tek_ut__here_self())
		begin(maker_at_once());
}

void tek_ut__aside_begin_in_allocator(void)
{
	if (tek_ut__here_self())
		begin(SUPPLIER);
}

void tek_ut__aside_end(void)
{
	const int error = get_errno();

	if (!tek_ut__here_self())
		return;
	tek_ut__posix_self()->aside = false;
	tek_ut__enter();
	tek_ut__leave();
	set_errno(error);
}

bool tek_ut__aside_is_patient(unsigned int *times)
{
	if (!tek_ut__here_self() || *times == YIELDS + PAUSES)
		return false;
	if (*times < YIELDS) {
		tek_ut__enter();
		tek_ut__yield(TEK_READY_YIELDED);
		tek_ut__leave();
	} else {
		tek_ut__pause();
	}
	++*times;
	return true;
}

/* If so the call does not wait any more, or rejects the time. */
static bool is_over(struct tek_until until)
{
	const struct timespec *deadline;
	struct timespec room;

	if (!until.at)
		return false;
	return !tek__clock_is_known(until.clock) || tek__until_deadline(until, &room, &deadline) ||
	       (deadline && tek__ns_of(deadline) <= tek__now(CLOCK_MONOTONIC));
}

bool tek_ut__aside_or_pause(unsigned int *pauses, struct tek_until until)
{
	const int error = get_errno();
	struct tek_waiter waiter;

	if (!tek_ut__here_self())
		return true;
	/* After a failure it does not try each time; meanwhile the worker runs other threads. */
	const bool later = *pauses || maker_at_once() == SUPPLIER;
	if (begin(later ? SUPPLIER_LATER : CALLER) || is_over(until))
		return true;
	tek_ut__aside_end();
	struct timespec then = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
						(FIRST_PAUSE_NS << *pauses));
	if (*pauses < DOUBLINGS)
		++*pauses;
	tek_ut__waiter_init(&waiter);
	if (tek_ut__wait_interruptible(&waiter, &then, TEK_WAITS_PAUSE) == TEK_INTERRUPTED)
		tek_ut__interrupted_by_signal();
	set_errno(error);
	return false;
}
