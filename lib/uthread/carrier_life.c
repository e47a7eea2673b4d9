/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The life of a carrier: its kernel thread begins, carries workers, and ends. */
#include "uthread/carrier.h"

#include "uthread/affinity.h"
#include "uthread/engine.h"
#include "uthread/idle.h"
#include "uthread/kernel_thread.h"
#include "uthread/overflow.h"
#include "uthread/preempt.h"
#include "uthread/reserved.h"
#include "uthread/sanitizer.h"
#include "uthread/spares.h"
#include "uthread/stacks.h"
#include "uthread/supplier.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a carrier's own context. Not more: mlockall(2) counts it against RLIMIT_MEMLOCK. */
#define CONTEXT_STACK_BYTES ((size_t)32 << 10)

struct tek_carrier *_Atomic tek_ut__carriers;
atomic_uint tek_ut__carrier_generation;

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
	const bool pooled = tek_ut__carrier_put_back(carrier);
	tek_ut__supplier_has_made_one();
	return pooled;
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
	while (more && (worker = tek_ut__carrier_await(carrier))) {
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
		while (!(worker = tek_ut__carrier_await(carrier)))
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
