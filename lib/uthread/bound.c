/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/bound.h"

#include "uthread/parallel.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* So long a spare carrier that is being made is waited for. */
#define SPARE_NS 1000000000

static void dedicate(struct tek_carrier *carrier, struct tek_uthread *thread)
{
	carrier->dedicated = true;
	atomic_store(&carrier->only, thread);
	thread->bound = true;
}

/* Whether the carrier that runs the thread can be its own. The process's first kernel thread never ends. */
static bool can_stay(const struct tek_carrier *carrier, const struct tek_uthread *thread)
{
	return !carrier->main || carrier->main == thread;
}

int tek__bound_begin(void)
{
	struct tek_uthread *self = tek__here_self();

	if (self->bound)
		return 0;
	if (!tek__parallel())
		tek__parallel_grant();
	/* In place of the carrier that runs it, or for it. */
	struct tek_carrier *spare = tek__carrier_spare_soon(SPARE_NS);
	if (!spare)
		return EAGAIN;
	tek__enter();
	struct tek_carrier *carrier = tek__here_carrier();
	if (can_stay(carrier, self)) {
		dedicate(carrier, self);
		self->carrier = carrier;
		tek__carrier_put_back(spare);
	} else {
		dedicate(spare, self);
		tek__move_to(spare);
	}
	tek__leave();
	tek__supplier_look();
	return 0;
}

void tek__bound_create(struct tek_uthread *thread, struct tek_carrier *carrier)
{
	dedicate(carrier, thread);
	thread->carrier = carrier;
	thread->changed = true;
}

/* Between tek__enter() and tek__leave(): whether no other worker runs a thread, not even the end of one. */
static bool others_are_idle(const struct tek_worker *self)
{
	for (unsigned int i = 0; i < tek__worker_count; i++) {
		if (&tek__workers[i] != self && tek__runs_on(&tek__workers[i]))
			return false;
	}
	return true;
}

bool tek__generation_begin(void)
{
	const struct tek_worker *worker = tek__enter();
	const bool alone = others_are_idle(worker);

	if (alone)
		tek__here_carrier()->generation = atomic_fetch_add(&tek__carrier_generation, 1) + 1;
	tek__leave();
	if (alone)
		tek__spares_dismiss();
	return alone;
}

void tek__generation_end(void)
{
	const int error = errno;

	/* Without one there are no spare carriers, as where no further kernel thread is to be had. */
	tek__supplier_replace();
	errno = error;
}

bool tek__bound_is_own_carrier(void)
{
	const struct tek_carrier *carrier = tek__here_carrier();

	return carrier && carrier->tid == (pid_t)syscall(SYS_gettid);
}
