/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/bound.h"

#include "uthread/idle.h"
#include "uthread/kernel_thread.h"
#include "uthread/monitor.h"
#include "uthread/parallel.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The longest wait for a spare carrier. On a busy machine it begins late; so long again a few
 * times, unless the kernel refuses to make one.
 */
#define SPARE_NS 1000000000
#define SPARE_WAITS 5

static void dedicate(struct tek_carrier *carrier, struct tek_uthread *thread)
{
	carrier->dedicated = true;
	atomic_store(&carrier->only, thread);
	thread->bound = true;
}

/* Whether the thread can have its current carrier. The process's first kernel thread never ends. */
static bool can_stay(const struct tek_carrier *carrier, const struct tek_uthread *thread)
{
	return !carrier->main || carrier->main == thread;
}

static struct tek_carrier *await_spare(void)
{
	struct tek_carrier *spare = NULL;

	for (int i = 0; i < SPARE_WAITS && !spare && (i == 0 || !tek_ut__supplier_is_refused());
	     i++)
		spare = tek_ut__carrier_spare_soon(SPARE_NS);
	return spare;
}

int tek_ut__bound_begin(void)
{
	struct tek_uthread *self = tek_ut__here_self();

	if (self->bound)
		return 0;
	if (!tek_ut__parallel())
		tek_ut__parallel_grant();
	/* It replaces the current carrier, or becomes the thread's. */
	struct tek_carrier *spare = await_spare();
	if (!spare)
		return EAGAIN;
	tek_ut__enter();
	struct tek_carrier *carrier = tek_ut__here_carrier();
	if (can_stay(carrier, self)) {
		dedicate(carrier, self);
		self->carrier = carrier;
		tek_ut__carrier_put_back(spare);
	} else {
		dedicate(spare, self);
		tek_ut__move_to(spare);
	}
	tek_ut__leave();
	tek_ut__supplier_check();
	return 0;
}

void tek_ut__bound_create(struct tek_uthread *thread, struct tek_carrier *carrier)
{
	dedicate(carrier, thread);
	thread->carrier = carrier;
	thread->changed = true;
}

/*
 * Whether no other worker runs a thread. A thread that is ending counts as running. To be called
 * between tek_ut__enter() and tek_ut__leave().
 */
static bool workers_are_idle(const struct tek_worker *self)
{
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (&tek_ut__workers[i] != self && tek_ut__runs_on(&tek_ut__workers[i]))
			return false;
	}
	return true;
}

bool tek_ut__generation_begin(void)
{
	const struct tek_worker *worker = tek_ut__enter();
	const bool alone = workers_are_idle(worker);

	if (alone)
		tek_ut__here_carrier()->generation =
			atomic_fetch_add(&tek_ut__carrier_generation, 1) + 1;
	tek_ut__leave();
	if (alone)
		tek_ut__spares_dismiss();
	return alone;
}

/*
 * Until the carriers' kernel threads of the earlier state are gone, but for the process's first
 * one, which cannot end.
 */
static void await_carriers(const struct tek_carrier *own)
{
	/* The supplier is gone: no other begins. */
	tek_ut__kernel_threads_await_ids();
	for (struct tek_carrier *each = atomic_load(&tek_ut__carriers); each; each = each->all) {
		if (each == own || each->main)
			continue;
		tek_ut__kernel_thread_await_end(atomic_load(&each->tid));
		tek_ut__kernel_thread_await_end(atomic_load(&each->ended));
	}
}

int tek_ut__generation_end(void)
{
	const struct tek_worker *own = tek_ut__here_worker();
	const pid_t supplier = tek_ut__supplier_stop(), monitor = tek_ut__monitor_stop();

	tek_ut__kernel_thread_await_end(supplier);
	tek_ut__kernel_thread_await_end(monitor);
	/* Idle carriers leave their workers to new ones, and end. */
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (&tek_ut__workers[i] != own)
			tek_ut__idle_wake(&tek_ut__workers[i]);
	}
	await_carriers(tek_ut__here_carrier());
	return tek_ut__monitor_start_again();
}

bool tek_ut__bound_is_own_carrier(void)
{
	const struct tek_carrier *carrier = tek_ut__here_carrier();

	return carrier && carrier->tid == (pid_t)syscall(SYS_gettid);
}
