/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/carrier.h"

#include "uthread/affinity.h"
#include "uthread/engine.h"
#include "uthread/monitor.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/tick.h"
#include "uthread/worker.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From here on it carries the worker. */
static void call(struct tek_carrier *carrier, struct tek_worker *worker)
{
	carrier->given = worker;
	atomic_store_explicit(&worker->carrier, carrier, memory_order_release);
	atomic_store_explicit(&carrier->called, 1, memory_order_release);
	syscall(SYS_futex, &carrier->called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void tek_ut__carrier_give_worker(struct tek_carrier *spare, struct tek_worker *worker)
{
	worker->kernel_mask = spare->context.mask;
	call(spare, worker);
}

bool tek_ut__carrier_kick(struct tek_carrier *carrier)
{
	if (atomic_exchange(&carrier->kicked, true) || tek_ut__tick_send(carrier->tid))
		return true;
	atomic_store(&carrier->kicked, false);
	return false;
}

void tek_ut__carrier_set_worker(struct tek_here *here, struct tek_worker *worker)
{
	tek_ut__spin_lock(&here->lock);
	here->worker = worker;
	__atomic_store_n(&here->entry, worker, __ATOMIC_RELAXED);
	tek_ut__spin_unlock(&here->lock);
}

struct tek_worker *tek_ut__carrier_await(struct tek_carrier *carrier)
{
	while (!atomic_load_explicit(&carrier->called, memory_order_acquire))
		syscall(SYS_futex, &carrier->called, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	atomic_store_explicit(&carrier->called, 0, memory_order_relaxed);
	struct tek_worker *worker = carrier->given;
	if (!worker)
		return NULL;
	struct tek_here *here = tek_ut__here_find();
	tek_ut__carrier_set_worker(here, worker);
	here->carrier = carrier;
	tek_ut__preempt_gain(worker, carrier);
	tek_ut__affinity_set(worker, carrier);
	tek_ut__shown_carried(worker->number, (int)carrier->tid);
	return worker;
}

/* The worker goes to another carrier. By its kernel thread. */
static void step_back(struct tek_carrier *carrier, struct tek_worker *worker)
{
	tek_ut__carrier_set_worker(tek_ut__here_find(), NULL);
	carrier->context.mask = worker->kernel_mask;
	tek_ut__preempt_lose(worker, carrier);
}

struct tek_worker *tek_ut__carrier_wait(struct tek_uthread *self, struct tek_carrier *carrier)
{
	atomic_store(&carrier->detached, NULL);
	atomic_store(&carrier->aside, false);
	tek_ut__carrier_set_worker(tek_ut__here_find(), NULL);
	tek_ut__ready(self, TEK_READY_PREEMPTED);
	return tek_ut__carrier_await(carrier);
}

/* The calling thread leaves its worker to a spare carrier, which goes on with `next`. */
static void leave_to_spare(struct tek_worker *worker, struct tek_carrier *spare,
			   struct tek_uthread *next)
{
	worker->left = (struct tek_left){tek_ut__here_self(), TEK_LEFT_READY, TEK_READY_PREEMPTED};
	worker->for_carrier = next;
	step_back(tek_ut__here_carrier(), worker);
	tek_ut__carrier_give_worker(spare, worker);
}

/* The same, to the carrier that `next` belongs to. */
static void leave_to_stopped(struct tek_worker *worker, struct tek_uthread *next)
{
	step_back(tek_ut__here_carrier(), worker);
	/*
	 * From here on another thread may call this carrier, which finds that call when it waits.
	 */
	tek_ut__ready(tek_ut__here_self(), TEK_READY_PREEMPTED);
	tek_ut__carrier_resume(worker, next);
}

bool tek_ut__carrier_stop_here(struct tek_worker *worker)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = tek_ut__here_carrier(), *spare = NULL;
	struct tek_uthread *next = tek_ut__next(worker, self, TEK_READY_PREEMPTED);

	if (next && !next->carrier && !(spare = tek_ut__carrier_spare())) {
		tek_ut__ready(next, TEK_READY_PREEMPTED);
		next = tek_ut__next_stopped(worker, self);
	}
	if (!next)
		return false;
	tek_ut__carrier_pin(self, carrier);
	tek_ut__set_current(worker, NULL);
	if (spare)
		leave_to_spare(worker, spare, next);
	else
		leave_to_stopped(worker, next);
	tek_ut__carrier_await(carrier);
	return true;
}

/* The monitor may be about to do the same. */
void tek_ut__carrier_leave_worker(struct tek_worker *worker, bool aside)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = tek_ut__here_carrier();

	tek_ut__carrier_set_worker(tek_ut__here_find(), NULL);
	tek_ut__carrier_pin(self, carrier);
	tek_ut__set_current(worker, NULL);
	atomic_store(&carrier->aside, aside);
	atomic_store(&carrier->detached, self);
	carrier->context.mask = worker->kernel_mask;
	tek_ut__preempt_lose(worker, carrier);
}

void tek_ut__carrier_hand_over(struct tek_worker *worker, struct tek_uthread *thread)
{
	step_back(tek_ut__here_carrier(), worker);
	tek_ut__carrier_resume(worker, thread);
}

void tek_ut__carrier_pass_on(struct tek_worker *worker, struct tek_uthread *next)
{
	struct tek_carrier *spare = tek_ut__carrier_spare();

	tek_ut__supplier_check(); /* for the next time */
	if (!spare && next)
		tek_ut__ready(next, TEK_READY_PREEMPTED);
	step_back(tek_ut__here_carrier(), worker);
	if (spare) {
		worker->for_carrier = next;
		tek_ut__carrier_give_worker(spare, worker);
	} else {
		atomic_store(&worker->carrier, NULL);
		tek_ut__monitor_find_carrier(worker);
	}
}

void tek_ut__carrier_resume(struct tek_worker *worker, struct tek_uthread *thread)
{
	struct tek_carrier *to = thread->carrier;

	if (!thread->stopped) {
		/* Its carrier's own context switches to it. */
		worker->for_carrier = thread;
		tek_ut__carrier_give_worker(to, worker);
		return;
	}
	tek_ut__carrier_unpin(thread);
	tek_ut__set_current(worker, thread);
	worker->kernel_mask = thread->mask;
	worker->switches++;
	call(to, worker);
}

/* Its worker may have been taken from it, or the monitor may be taking it. */
__attribute__((cold, noinline)) struct tek_worker *tek_ut__enter_again(void)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = tek_ut__here_carrier();

	if (!self || !carrier) {
		tek_ut__come_in();
		return NULL;
	}
	struct tek_here *here = tek_ut__here_find();
	tek_ut__spin_lock(&here->lock);
	struct tek_worker *worker = here->entry;
	tek_ut__spin_unlock(&here->lock);
	return worker ? worker : tek_ut__carrier_wait(self, carrier);
}

static bool all_cpus_pass_a_barrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static bool carries(struct tek_carrier *carrier, struct tek_worker *worker,
		    const struct tek_uthread *thread)
{
	return atomic_load(&worker->carrier) == carrier && tek_ut__runs_on(worker) == thread;
}

/*
 * Closes the entry: until open_entry() the carrier's thread cannot enter the engine. False: the
 * entry was not that of `worker`, and nothing is changed.
 */
static bool close_entry(struct tek_here *here, struct tek_worker *worker)
{
	return __atomic_compare_exchange_n(&here->entry, &worker, NULL, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

/* Opens the entry again, unless the carrier has got a worker meanwhile. */
static void open_entry(struct tek_here *here, struct tek_worker *worker)
{
	struct tek_worker *nobody = NULL;

	__atomic_compare_exchange_n(&here->entry, &nobody, worker, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* Whether the thread is not in the engine. It cannot have entered since the entry was closed. */
static bool is_outside(const struct tek_here *here)
{
	return !__atomic_load_n(&here->defer, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&here->entry, __ATOMIC_RELAXED);
}

bool tek_ut__carrier_take_worker(struct tek_worker *worker,
				 bool (*is_held_up)(const struct tek_carrier *))
{
	struct tek_carrier *carrier = atomic_load(&worker->carrier);
	struct tek_uthread *self = tek_ut__runs_on(worker);

	if (!carrier || !self || !is_held_up(carrier))
		return false;
	struct tek_here *here = self->here ? self->here : carrier->kernel_here;
	tek_ut__spin_lock(&here->lock);
	bool taken = carries(carrier, worker, self) && close_entry(here, worker);
	if (taken && !(all_cpus_pass_a_barrier() && is_outside(here) &&
		       carries(carrier, worker, self) && is_held_up(carrier))) {
		open_entry(here, worker);
		taken = false;
	}
	if (taken) {
		tek_ut__carrier_pin(self, carrier);
		tek_ut__set_current(worker, NULL);
		atomic_store(&carrier->detached, self);
		carrier->context.mask = worker->kernel_mask;
		tek_ut__preempt_lose(worker, carrier);
		atomic_store(&worker->carrier, NULL);
	}
	tek_ut__spin_unlock(&here->lock);
	return taken;
}
