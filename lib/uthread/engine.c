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
#include "uthread/sections.h"
#include "uthread/stacks.h"
#include "uthread/tls.h"
#include "uthread/trace.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>

struct tek_engine_options tek_ut__engine;

static atomic_bool runs;
static struct tek_uthread first;

struct tek_engine_options tek_ut__engine_defaults(void)
{
	tek_ut__affinity_start();
	return (struct tek_engine_options){
		.workers = tek_ut__affinity_cpus(),
		.sched = &tek_ut__sched_rr,
		.quantum_ns = 5000000,
		.preempt = TEK_PREEMPT_DEFER,
		.stack_bytes = 64 << 10,
		.promote_quanta = 200,
		.lock = TEK_LOCK_WORKER,
	};
}

bool tek_ut__engine_runs(void)
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
	first.sched.assigned = &tek_ut__workers[0];
	tek_ut__own_adopt(&first);
	first.all_next = atomic_load(&tek_ut__uthreads);
	while (!atomic_compare_exchange_weak(&tek_ut__uthreads, &first.all_next, &first))
		;
}

/* Gives each of `count` threads storage of its own once, if threads have that. 0 or ENOMEM. */
static int prepare_pool(unsigned int count)
{
	struct tek_uthread *all = NULL, *thread;
	int error = tek_ut__stacks_prepare(count);

	tek_ut__enter();
	while (!error && tek_ut__engine.own_tls && (thread = tek_ut__stacks_take(NULL, 0))) {
		error = tek_ut__tls_give(thread);
		thread->next_free = all;
		all = thread;
	}
	while ((thread = all)) {
		all = thread->next_free;
		tek_ut__tls_take(thread);
		tek_ut__stacks_give(NULL, thread);
	}
	tek_ut__leave();
	return error;
}

/* There are several kernel threads, or a trace, which needs blocks, or a program that may block. */
static bool needs_monitor(void)
{
	return tek_ut__parallel() || tek_ut__engine.foreign;
}

/* The other workers, and the monitor. */
static int start_workers(void)
{
	int error = 0;

	/* The scheduler and the trace stay as they are. */
	atomic_store(&tek_ut__plain, !tek_ut__parallel() && !tek_ut__sched->goes_before);
	if (needs_monitor())
		error = tek_ut__monitor_start();
	for (unsigned int i = 1; i < tek_ut__worker_count && !error; i++)
		error = tek_ut__carrier_start(&tek_ut__workers[i],
					      atomic_load(&tek_ut__carrier_generation));
	return error;
}

int tek_ut__engine_start(const struct tek_engine_options *options)
{
	int error = check(options);

	if (error)
		return error;
	if (atomic_exchange(&runs, true))
		return EBUSY;
	tek_ut__engine = *options;
	tek_ut__sched = options->sched;
	tek_ut__worker_count = options->workers;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++)
		tek_ut__workers[i].number = i;
	/* With KLT preemption there is always a second kernel thread. */
	tek_ut__parallel_start(options->workers > 1 || options->trace ||
				       options->preempt == TEK_PREEMPT_KLT,
			       options->foreign);
	tek_ut__affinity_start();
	tek_ut__overflow_start();
	error = tek_ut__sched->start(tek_ut__worker_count);
	if (!error)
		error = tek_ut__events_start();
	if (!error && options->preempt != TEK_PREEMPT_OFF)
		error = tek_ut__preempt_start();
	if (!error && options->trace)
		tek_ut__trace_start(options->trace);
	if (!error) {
		prepare_first();
		error = tek_ut__carrier_adopt(&tek_ut__workers[0], &first);
	}
	if (!error)
		tek_ut__parallel_started();
	if (!error && options->pool)
		error = prepare_pool(options->pool);
	if (!error)
		error = start_workers();
	if (error) { /* then all threads are the kernel's, the calling one, too */
		tek_ut__carrier_disown();
		tek_ut__parallel_grant();
	}
	return error;
}

void tek_ut__engine_after_fork(void)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = tek_ut__here_carrier();

	/* The part that kernel threads use, too. */
	tek_ut__guards_after_fork();
	tek_ut__wait_after_fork();
	tek_ut__own_after_fork();
	tek_ut__once_after_fork();
	if (!self || !carrier) {
		tek_ut__parallel_grant(); /* there is no carrier to ask */
		return;
	}
	/* Only the forking thread exists: it goes on alone, on the first worker. */
	struct tek_worker *old = tek_ut__here_worker(), *worker = &tek_ut__workers[0];
	uint64_t mask = old ? old->kernel_mask : self->mask;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		tek_ut__set_current(&tek_ut__workers[i], NULL);
		tek_ut__workers[i].free = NULL;
		tek_ut__workers[i].free_tls = NULL;
		tek_ut__workers[i].free_count = 0;
		atomic_store(&tek_ut__workers[i].idle, TEK_IDLE_NO);
		atomic_store(&tek_ut__workers[i].carrier, NULL);
	}
	for (struct tek_uthread *each = atomic_load(&tek_ut__uthreads); each;
	     each = each->all_next) {
		/* Each write copies a page. */
		if (each != self && each->id)
			each->id = 0;
	}
	tek_ut__worker_count = 1;
	tek_ut__stacks_after_fork();
	tek_ut__own_stacks_after_fork();
	if (tek_ut__engine.own_tls)
		tek_ut__tls_after_fork(); /* before any thread is given storage */
	tek_ut__carriers_after_fork();
	tek_ut__critical_after_fork();
	tek_ut__idle_after_fork();
	tek_ut__sched->start(1);
	tek_ut__events_after_fork();
	self->carrier = NULL;
	self->bound = self->changed = self->stopped = false;
	self->sched.assigned = worker;
	tek_ut__set_current(worker, self);
	worker->kernel_mask = mask;
	worker->left.leaving = TEK_LEFT_NOBODY;
	worker->for_carrier = NULL;
	atomic_store(&worker->carrier, carrier);
	tek_ut__carrier_set_worker(tek_ut__here_find(), worker);
	tek_ut__parallel_after_fork();
	tek_ut__sections_after_fork();
	tek_ut__kernel_wait_after_fork();
	tek_ut__preempt_after_fork(worker, carrier);
	tek_ut__trace_after_fork();
	if (needs_monitor())
		tek_ut__monitor_start();
}
