/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/carrier.h"

#include "uthread/affinity.h"
#include "uthread/engine.h"
#include "uthread/idle.h"
#include "uthread/kernel_thread.h"
#include "uthread/monitor.h"
#include "uthread/overflow.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/reserved.h"
#include "uthread/sanitizer.h"
#include "uthread/spares.h"
#include "uthread/stacks.h"
#include "uthread/supplier.h"
#include "uthread/tick.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a carrier's own context. Not more: mlockall(2) counts it against RLIMIT_MEMLOCK. */
#define CONTEXT_STACK_BYTES ((size_t)32 << 10)

struct tek_carrier *_Atomic tek_ut__carriers;
atomic_uint tek_ut__carrier_generation;

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

/*
 * Until it is given a worker, which from then on is its own; NULL: it is dismissed. By its kernel
 * thread.
 */
static struct tek_worker *wait_for_worker(struct tek_carrier *carrier)
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
	return wait_for_worker(carrier);
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
	wait_for_worker(carrier);
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

	tek_ut__supplier_look(); /* for the next time */
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

static void prepare(struct tek_carrier *carrier)
{
	carrier->tid = (pid_t)syscall(SYS_gettid);
	carrier->context.defer = 1;
	carrier->timer = -1;
	atomic_store(&carrier->kicked, false);
	carrier->signal_stack = tek_ut__overflow_give_stack(carrier->signal_stack);
}

static void list(struct tek_carrier *carrier)
{
	carrier->listed = true;
	carrier->all = atomic_load(&tek_ut__carriers);
	while (!atomic_compare_exchange_weak(&tek_ut__carriers, &carrier->all, carrier))
		;
}

/* The kernel thread ends. The structure stays in the list of all, for readers of that list. */
static void end(struct tek_carrier *carrier)
{
	tek_ut__here_find()->carrier = NULL;
	tek_ut__preempt_remove(carrier);
	if (tek_ut__engine.own_tls)
		tek_ut__tls_unadopt(&carrier->context);
	/* In this order: a reader finds it in one of the two until it is gone. */
	atomic_store(&carrier->ended, atomic_load(&carrier->tid));
	atomic_store(&carrier->tid, 0);
	tek_ut__carrier_drop(carrier);
}

/* It has no worker: whether it waits for the next one. */
static bool stays(struct tek_carrier *carrier)
{
	return carrier->dedicated ? !tek_ut__carrier_is_over(carrier)
				  : tek_ut__carrier_keep(carrier);
}

/*
 * A kernel thread that has just begun. Without a worker it is a spare one, unless it is for one
 * thread only.
 */
static bool is_wanted(struct tek_carrier *carrier)
{
	if (atomic_load(&carrier->called) || carrier->dedicated)
		return true;
	const bool kept = tek_ut__carrier_put_back(carrier);
	tek_ut__supplier_has_made_one();
	return kept;
}

/* The life of a kernel thread that carries any worker that it is given. */
static void *carry(void *argument)
{
	struct tek_carrier *carrier = argument;
	struct tek_here *here = tek_ut__here_find();

	syscall(SYS_prctl, PR_SET_NAME, "tek-worker");
	prepare(carrier);
	carrier->kernel_here = here;
	here->carrier = carrier;
	here->defer = 1;
	if (tek_ut__engine.own_tls)
		tek_ut__tls_adopt(&carrier->context);
	carrier->context.mask = tek_ut__blockable_signals();
	tek_ut__fiber_adopt(&carrier->context);
	tek_ut__preempt_add(carrier);
	if (!carrier->listed)
		list(carrier);
	tek_ut__kernel_thread_has_begun();
	struct tek_worker *worker;
	bool more = is_wanted(carrier);
	while (more && (worker = wait_for_worker(carrier))) {
		tek_ut__after_switch(worker);
		tek_ut__idle(carrier, worker);
		more = stays(carrier);
	}
	end(carrier);
	return NULL;
}

int tek_ut__carrier_start(struct tek_worker *worker, unsigned int generation)
{
	struct tek_carrier *carrier = tek_ut__carrier_new();

	if (!carrier)
		return ENOMEM;
	carrier->dedicated = false;
	carrier->generation = generation;
	if (worker) {
		worker->kernel_mask = tek_ut__blockable_signals();
		carrier->given = worker;
		atomic_store(&worker->carrier, carrier);
		atomic_store(&carrier->called, 1);
	}
	int error = tek_ut__kernel_thread(carry, carrier);
	if (error) {
		atomic_store(&carrier->called, 0);
		tek_ut__carrier_drop(carrier);
	}
	return error;
}

struct tek_carrier *tek_ut__carrier_start_dedicated(void)
{
	struct tek_carrier *carrier = tek_ut__carrier_new();

	if (!carrier)
		return NULL;
	carrier->dedicated = true;
	atomic_store(&carrier->only, NULL);
	atomic_store(&carrier->place, atomic_load(&tek_ut__here_carrier()->place));
	/* It may be given a worker before it has begun. */
	carrier->context.mask = tek_ut__blockable_signals();
	if (tek_ut__kernel_thread(carry, carrier) != 0) {
		tek_ut__carrier_drop(carrier);
		return NULL;
	}
	return carrier;
}

void tek_ut__carrier_dismiss(struct tek_carrier *carrier)
{
	carrier->given = NULL;
	atomic_store_explicit(&carrier->called, 1, memory_order_release);
	syscall(SYS_futex, &carrier->called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/*
 * The own context of the kernel thread that lends its stack to the first thread. It never ends: the
 * process would.
 */
static const struct tek_context *carry_adopted(void *argument)
{
	struct tek_carrier *carrier = argument;

	tek_ut__fiber_arrived(&carrier->context);
	tek_ut__after_switch(tek_ut__here_worker());
	for (struct tek_worker *worker = tek_ut__here_worker();;) {
		tek_ut__idle(carrier, worker);
		if (!carrier->dedicated)
			tek_ut__carrier_put_back(carrier);
		while (!(worker = wait_for_worker(carrier)))
			;
		tek_ut__after_switch(worker);
	}
	return NULL;
}

/*
 * The one carrier with its own context outside the stack of its kernel thread, and with storage of
 * its own.
 */
static struct {
	struct tek_uthread *block; /* that it is on */
	struct tek_uthread *context;
} adopted;

static int make_room(struct tek_uthread *context)
{
	adopted.block = tek_ut__stacks_take_own(CONTEXT_STACK_BYTES);
	if (!adopted.block || (tek_ut__engine.own_tls && tek_ut__tls_give(context)))
		return ENOMEM;
	return 0;
}

/* In the child of a fork another carrier may be that one. */
static void inherit_room(struct tek_uthread *context)
{
	context->tls = adopted.context->tls;
	context->here = adopted.context->here;
	context->own_tls = adopted.context->own_tls;
}

/* The carrier's own context begins anew, on a stack of the engine's. 0 or ENOMEM. */
static int make_context(struct tek_carrier *carrier)
{
	struct tek_uthread *block;

	if (adopted.context)
		inherit_room(&carrier->context);
	else if (make_room(&carrier->context))
		return ENOMEM;
	adopted.context = &carrier->context;
	block = adopted.block;
	carrier->context.defer = 1;
	if (carrier->context.here)
		carrier->context.here->defer = 1;
	/* First: a sanitizer may still watch the frames of the stack's previous thread. */
	tek_ut__fiber_new(&carrier->context, block->stack_low, block->stack_bytes);
	tek__context_make(&carrier->context.context, block, carry_adopted, carrier);
	return 0;
}

int tek_ut__carrier_adopt(struct tek_worker *worker, struct tek_uthread *first)
{
	struct tek_carrier *carrier = tek_ut__carrier_new();
	struct tek_here *here = tek_ut__here_find();

	if (!carrier)
		return ENOMEM;
	prepare(carrier);
	carrier->dedicated = false;
	carrier->generation = atomic_load(&tek_ut__carrier_generation);
	carrier->main = first;
	carrier->kernel_here = here;
	if (tek_ut__engine.own_tls)
		tek_ut__tls_adopt(first);
	if (make_context(carrier)) {
		tek_ut__carrier_drop(carrier);
		return ENOMEM;
	}
	tek_ut__fiber_adopt(first);
	tek_ut__set_current(worker, first);
	uint64_t mask;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, sizeof(mask));
	first->mask = worker->kernel_mask = mask;
	atomic_store(&worker->carrier, carrier);
	tek_ut__carrier_set_worker(here, worker);
	here->self = first;
	here->carrier = carrier;
	tek_ut__preempt_add(carrier);
	tek_ut__preempt_gain(worker, carrier);
	tek_ut__affinity_set(worker, carrier);
	list(carrier);
	return 0;
}

void tek_ut__carrier_disown(void)
{
	struct tek_carrier *carrier = tek_ut__here_carrier();
	struct tek_worker *worker = tek_ut__here_worker();

	if (!carrier)
		return;
	tek_ut__preempt_remove(carrier);
	tek_ut__carrier_set_worker(carrier->kernel_here, NULL);
	carrier->kernel_here->self = NULL;
	carrier->kernel_here->carrier = NULL;
	tek_ut__set_current(worker, NULL);
	atomic_store(&worker->carrier, NULL);
}

void tek_ut__carriers_after_fork(void)
{
	struct tek_carrier *carrier = tek_ut__here_carrier();

	/* The other carriers do not exist in the child; their memory is left alone. */
	tek_ut__spares_after_fork();
	atomic_store(&tek_ut__carriers, NULL);
	tek_ut__kernel_threads_after_fork();
	carrier->tid = (pid_t)syscall(SYS_gettid);
	carrier->timer = -1;
	atomic_store(&carrier->kernel_here->lock.held, 0);
	atomic_store(&tek_ut__here_find()->lock.held, 0);
	atomic_store(&carrier->called, 0);
	atomic_store(&carrier->detached, NULL);
	atomic_store(&carrier->aside, false);
	atomic_store(&carrier->kicked, false);
	/* All later kernel threads of the child inherit from this one. */
	carrier->dedicated = false;
	carrier->generation = atomic_load(&tek_ut__carrier_generation);
	carrier->main = tek_ut__here_self();
	list(carrier);
	/*
	 * Its own context may have been on the stack of a kernel thread. The C library considers
	 * that stack free, and gives it to the next kernel thread.
	 */
	make_context(carrier);
}
