/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/aside.h"

#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/parallel.h"
#include "uthread/posix/record.h"
#include "uthread/preempt.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* So often it is looked for one that is being made. */
#define TRIES 100
#define TRY_NS 100000

/* How long a thread is patient: so often it lets others run, and then so often it pauses. */
#define YIELDS 20
#define PAUSES 20

static struct tek_carrier *wait_for_spare(void)
{
	const struct timespec moment = {.tv_nsec = TRY_NS};
	struct tek_carrier *spare = tek__carrier_spare();

	for (int i = 0; !spare && i < TRIES; i++) {
		tek__supplier_look();
		syscall(SYS_nanosleep, &moment, NULL);
		spare = tek__carrier_spare();
	}
	tek__supplier_look(); /* for the next one */
	return spare;
}

/* The monitor may be about to do the same: carrier.h. */
static void leave_worker(struct tek_worker *worker)
{
	struct tek_uthread *self = tek__here_self();
	struct tek_carrier *carrier = tek__here_carrier();

	tek__carrier_set_worker(tek__here_find(), NULL);
	self->carrier = carrier;
	tek__set_current(worker, NULL);
	atomic_store(&carrier->aside, true);
	atomic_store(&carrier->detached, self);
	carrier->context.mask = worker->kernel_mask;
	tek__preempt_lose(worker, carrier);
}

/* Nobody could be had who carries it. */
static void take_back(struct tek_worker *worker)
{
	struct tek_uthread *self = tek__here_self();
	struct tek_carrier *carrier = tek__here_carrier();

	atomic_store(&carrier->detached, NULL);
	atomic_store(&carrier->aside, false);
	self->carrier = NULL;
	worker->kernel_mask = carrier->context.mask;
	atomic_store(&worker->carrier, carrier);
	tek__set_current(worker, self);
	tek__carrier_set_worker(tek__here_find(), worker);
	tek__preempt_gain(worker, carrier);
}

/*
 * With kernel threads for preemption the supplier makes carriers, and nobody else: a thread that was stopped may have
 * a lock of the C library that this takes.
 */
static void step_aside(struct tek_worker *worker)
{
	const bool by_supplier = tek__engine.preempt == TEK_PREEMPT_KLT;
	struct tek_carrier *spare = by_supplier ? wait_for_spare() : tek__carrier_spare();

	if (!spare && by_supplier)
		return;
	leave_worker(worker);
	if (spare)
		tek__carrier_give_worker(spare, worker);
	else if (tek__carrier_start(worker) != 0)
		take_back(worker);
}

static __attribute__((noinline)) int get_errno(void)
{
	return errno;
}

static __attribute__((noinline)) void set_errno(int error)
{
	errno = error;
}

void tek__aside_begin(void)
{
	void tek__leave_pending(void); /* worker.h */
	const int error = get_errno();

	if (!tek__here_self())
		return;
	tek__posix_self()->aside = true;
	/* There will be two kernel threads in the engine, and who asks for that is the one that carries. */
	if (!tek__parallel())
		tek__parallel_grant();
	for (;;) {
		step_aside(tek__enter());
		if (!tek__here_undefer())
			break;
		/* Something has come that is to be seen to first, on a worker. */
		tek__leave_pending();
	}
	set_errno(error);
}

void tek__aside_end(void)
{
	const int error = get_errno();

	if (!tek__here_self())
		return;
	tek__posix_self()->aside = false;
	tek__enter();
	tek__leave();
	set_errno(error);
}

bool tek__aside_is_patient(unsigned int *times)
{
	if (!tek__here_self())
		return false;
	if (*times < YIELDS) {
		tek__enter();
		tek__yield(TEK_READY_YIELDED);
		tek__leave();
	} else {
		tek__pause();
	}
	return ++*times < YIELDS + PAUSES;
}
