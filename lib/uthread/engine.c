/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/engine.h"

#include "uthread/affinity.h"
#include "uthread/carrier.h"
#include "uthread/critical.h"
#include "uthread/events.h"
#include "uthread/guard.h"
#include "uthread/idle.h"
#include "uthread/kernel_wait.h"
#include "uthread/monitor.h"
#include "uthread/once.h"
#include "uthread/overflow.h"
#include "uthread/own.h"
#include "uthread/own_stacks.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/stacks.h"
#include "uthread/tls.h"
#include "uthread/trace.h"
#include "uthread/wait.h"
#include "uthread/worker.h"
#include "uthread/zones.h"

#include <errno.h>

struct tek_engine_options tek__engine;

static atomic_bool runs;
static struct tek_uthread first;

struct tek_engine_options tek__engine_defaults(void)
{
	tek__affinity_start();
	return (struct tek_engine_options){
		.workers = tek__affinity_cpus(),
		.sched = &tek__sched_rr,
		.quantum_ns = 5000000,
		.preempt = TEK_PREEMPT_DEFER,
		.stack_bytes = 64 << 10,
		.promote_quanta = 200,
		.lock = TEK_LOCK_WORKER,
	};
}

bool tek__engine_runs(void)
{
	return atomic_load_explicit(&runs, memory_order_relaxed);
}

static int check(const struct tek_engine_options *options)
{
	bool sound = options->workers >= 1 && options->workers <= TEK_WORKERS_MAX &&
		     options->sched && options->quantum_ns >= TEK_QUANTUM_LEAST_NS &&
		     options->quantum_ns <= TEK_QUANTUM_MOST_NS;
	return sound ? 0 : EINVAL;
}

static void prepare_first(void)
{
	first.id = 1;
	atomic_store(&first.joiner, TEK_JOIN_NONE);
	first.sched.home = &tek__workers[0];
	tek__own_adopt(&first);
	first.all_next = atomic_load(&tek__uthreads);
	while (!atomic_compare_exchange_weak(&tek__uthreads, &first.all_next, &first))
		;
}

/* Gives each of `count` threads storage of its own once, if threads have that. 0 or ENOMEM. */
static int prepare_pool(unsigned int count)
{
	struct tek_uthread *all = NULL, *thread;
	int error = tek__stacks_prepare(count);

	tek__enter();
	while (!error && tek__engine.own_tls && (thread = tek__stacks_take(NULL, 0))) {
		error = tek__tls_give(thread);
		thread->next_free = all;
		all = thread;
	}
	while ((thread = all)) {
		all = thread->next_free;
		tek__tls_take(thread);
		tek__stacks_give(NULL, thread);
	}
	tek__leave();
	return error;
}

/* There are several kernel threads, or a trace, which needs blocks, or a program that may block. */
static bool needs_monitor(void)
{
	return tek__parallel() || tek__engine.foreign;
}

/* The other workers, and the monitor. */
static int start_others(void)
{
	int error = 0;

	/* The scheduler and the trace stay as they are. */
	atomic_store(&tek__plain, !tek__parallel() && !tek__sched->goes_before);
	if (needs_monitor())
		error = tek__monitor_start();
	for (unsigned int i = 1; i < tek__worker_count && !error; i++)
		error = tek__carrier_start(&tek__workers[i], atomic_load(&tek__carrier_generation));
	return error;
}

int tek__engine_start(const struct tek_engine_options *options)
{
	int error = check(options);

	if (error)
		return error;
	if (atomic_exchange(&runs, true))
		return EBUSY;
	tek__engine = *options;
	tek__sched = options->sched;
	tek__worker_count = options->workers;
	for (unsigned int i = 0; i < tek__worker_count; i++)
		tek__workers[i].number = i;
	/* With KLT preemption there is always a second kernel thread. */
	tek__parallel_start(options->workers > 1 || options->trace ||
				    options->preempt == TEK_PREEMPT_KLT,
			    options->foreign);
	tek__affinity_start();
	tek__overflow_start();
	error = tek__sched->start(tek__worker_count);
	if (!error)
		error = tek__events_start();
	if (!error && options->preempt != TEK_PREEMPT_OFF)
		error = tek__preempt_start();
	if (!error && options->trace)
		tek__trace_start(options->trace);
	if (!error) {
		prepare_first();
		error = tek__carrier_adopt(&tek__workers[0], &first);
	}
	if (!error)
		tek__parallel_started();
	if (!error && options->pool)
		error = prepare_pool(options->pool);
	if (!error)
		error = start_others();
	if (error) { /* then all threads are the kernel's, the calling one, too */
		tek__carrier_disown();
		tek__parallel_grant();
	}
	return error;
}

void tek__engine_after_fork(void)
{
	struct tek_uthread *self = tek__here_self();
	struct tek_carrier *carrier = tek__here_carrier();

	/* The part that kernel threads use, too. */
	tek__guards_after_fork();
	tek__wait_after_fork();
	tek__own_after_fork();
	tek__once_after_fork();
	if (!self || !carrier) {
		tek__parallel_grant(); /* there is no carrier to ask */
		return;
	}
	/* Only the forking thread exists: it goes on alone, on the first worker. */
	struct tek_worker *old = tek__here_worker(), *worker = &tek__workers[0];
	uint64_t mask = old ? old->kernel_mask : self->mask;
	for (unsigned int i = 0; i < tek__worker_count; i++) {
		tek__set_current(&tek__workers[i], NULL);
		tek__workers[i].free = NULL;
		tek__workers[i].free_tls = NULL;
		tek__workers[i].free_count = 0;
		atomic_store(&tek__workers[i].idle, TEK_IDLE_NO);
		atomic_store(&tek__workers[i].carrier, NULL);
	}
	for (struct tek_uthread *each = atomic_load(&tek__uthreads); each; each = each->all_next) {
		/* Each write copies a page. */
		if (each != self && each->id)
			each->id = 0;
	}
	tek__worker_count = 1;
	tek__stacks_after_fork();
	tek__own_stacks_after_fork();
	if (tek__engine.own_tls)
		tek__tls_after_fork(); /* before any thread is given storage */
	tek__carriers_after_fork();
	tek__critical_after_fork();
	tek__idle_after_fork();
	tek__sched->start(1);
	tek__events_after_fork();
	self->carrier = NULL;
	self->bound = self->changed = self->stopped = false;
	self->sched.home = worker;
	tek__set_current(worker, self);
	worker->kernel_mask = mask;
	worker->left.leaving = TEK_LEFT_NOBODY;
	worker->for_carrier = NULL;
	atomic_store(&worker->carrier, carrier);
	tek__carrier_set_worker(tek__here_find(), worker);
	tek__parallel_after_fork();
	tek__zones_after_fork();
	tek__kernel_wait_after_fork();
	tek__preempt_after_fork(worker, carrier);
	tek__trace_after_fork();
	if (needs_monitor())
		tek__monitor_start();
}
