/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/preempt.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/critical.h"
#include "uthread/engine.h"
#include "uthread/events.h"
#include "uthread/interrupted.h"
#include "uthread/kernel_wait.h"
#include "uthread/monitor.h"
#include "uthread/parallel.h"
#include "uthread/reserved.h"
#include "uthread/sections.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/tick.h"
#include "uthread/unpreempted.h"
#include "uthread/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* A tick that arrived at a bad moment is tried again after so long, this often. */
#define RETRY_NS 20000
#define RETRIES 4
/* How often the monitor is asked whether a worker's carrier is blocked, at most. */
#define MONITOR_NS 2000000

void (*tek_ut__preempt_resumed)(struct tek_uthread *self, bool in_program);
void (*tek_ut__preempt_held)(struct tek_uthread *self, ucontext_t *context);

static void set_timer(const struct tek_carrier *carrier, uint64_t first_ns, uint64_t each_ns)
{
	const struct itimerspec times = {
		.it_value = tek__timespec_of(first_ns),
		.it_interval = tek__timespec_of(each_ns),
	};
	syscall(SYS_timer_settime, carrier->timer, 0, &times, NULL);
}

void tek_ut__preempt_add(struct tek_carrier *carrier)
{
	struct sigevent event;

	if (tek_ut__engine.preempt == TEK_PREEMPT_OFF)
		return;
	carrier->cost = (struct tek_tick_cost){0};
	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = TEK_TICK_SIGNAL;
	event.sigev_value = tek_ut__tick_value();
	event.sigev_notify_thread_id = carrier->tid;
	/* Not timer_create(3): its timers are not the kernel's numbers. */
	int number;
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &number) == 0)
		carrier->timer = number;
	else
		tek_ut__unpreempted_without_timer(errno);
}

void tek_ut__preempt_remove(struct tek_carrier *carrier)
{
	const int number = carrier->timer;

	carrier->timer = -1;
	if (number >= 0)
		syscall(SYS_timer_delete, number);
}

static uint64_t least_interval_of(const struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->least_interval, memory_order_relaxed);
}

static uint64_t best_interval(const struct tek_worker *worker)
{
	const uint64_t interval = tek_ut__kernel_wait_interval();
	const uint64_t least = least_interval_of(worker);

	return interval > least ? interval : least;
}

static void start_timer(struct tek_worker *worker, const struct tek_carrier *carrier)
{
	const uint64_t interval = best_interval(worker);
	/* Workers tick one after the other, so that they do not all contend for the same lock. */
	const uint64_t shift = interval * worker->number / tek_ut__worker_count;

	atomic_store_explicit(&worker->interval, interval, memory_order_relaxed);
	set_timer(carrier, interval + shift, interval);
}

/* Another kernel thread sets it for a worker that it takes over. */
static uint64_t interval_of(const struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->interval, memory_order_relaxed);
}

/*
 * The interval changes as soon as there is a wait in the kernel to poll for, or none any more, and
 * with the cost of a tick.
 */
static void adapt_timer(struct tek_worker *worker)
{
	const struct tek_carrier *carrier = atomic_load(&worker->carrier);
	const uint64_t interval = interval_of(worker), best = best_interval(worker);
	/* Each measurement of the cost differs a little. */
	const bool same = interval >= best - best / 8 && interval <= best + best / 8;

	if (carrier && carrier->timer >= 0 && atomic_load(&worker->ticking) && !same)
		start_timer(worker, carrier);
}

/* A tick has arrived: whether a quantum has passed with it. */
static bool is_quantum_over(struct tek_worker *worker)
{
	if (++worker->polls < tek_ut__kernel_wait_polls(interval_of(worker)))
		return false;
	worker->polls = 0;
	return true;
}

void tek_ut__preempt_needed(struct tek_worker *worker)
{
	struct tek_carrier *carrier = atomic_load(&worker->carrier);

	/* Without a timer it is marked as ticking too, and is not asked again. */
	if (!carrier || atomic_exchange(&worker->ticking, true) || carrier->timer < 0)
		return;
	start_timer(worker, carrier);
}

void tek_ut__preempt_lose(struct tek_worker *worker, struct tek_carrier *carrier)
{
	if (carrier->timer >= 0 && atomic_load(&worker->ticking))
		set_timer(carrier, 0, 0);
}

void tek_ut__preempt_gain(struct tek_worker *worker, struct tek_carrier *carrier)
{
	if (carrier->timer >= 0 && atomic_load(&worker->ticking))
		start_timer(worker, carrier);
}

static void stop_ticking(struct tek_worker *worker)
{
	const struct tek_carrier *carrier = atomic_load(&worker->carrier);

	set_timer(carrier, 0, 0);
	atomic_store(&worker->ticking, false);
	/* The thread that makes one ready reads `ticking` afterwards: one sees the other. */
	tek_ut__fence();
	if (tek_ut__any_ready(worker))
		tek_ut__preempt_needed(worker);
}

void tek_ut__preempt_kick(struct tek_worker *worker)
{
	if (tek_ut__engine.preempt == TEK_PREEMPT_OFF || atomic_exchange(&worker->kicked, true))
		return;
	if (worker == tek_ut__here_worker() && tek_ut__here_self()) {
		/* When it leaves the engine. */
		__atomic_fetch_or(&tek_ut__here_find()->pending, TEK_PENDING_CHECK,
				  __ATOMIC_RELAXED);
		return;
	}
	struct tek_carrier *carrier = atomic_load(&worker->carrier);
	if (carrier && !tek_ut__carrier_kick(carrier))
		atomic_store(&worker->kicked, false); /* by another thread, or the next tick */
}

/* Starts the ticks of workers that have none, and have ready threads beside the running one. */
static void start_workers(const struct tek_worker *self)
{
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		struct tek_worker *worker = &tek_ut__workers[i];
		if (worker != self && tek_ut__runs_on(worker) &&
		    !atomic_load_explicit(&worker->ticking, memory_order_relaxed))
			tek_ut__preempt_needed(worker);
	}
}

/*
 * Not if the last switch took as long as a quantum: each thread would be taken off its worker
 * before it has run.
 */
static bool has_had_time(const struct tek_worker *worker)
{
	return tek__now(CLOCK_MONOTONIC) - worker->given_at >= interval_of(worker) / 2;
}

/*
 * A quantum of this worker has passed. Returns whether the running thread has used up its
 * allotment.
 */
static bool count_tick(struct tek_worker *worker)
{
	worker->ticks++;
	if (tek_ut__timers_any())
		tek_ut__timers_run();
	if (tek_ut__events_any())
		tek_ut__events_run(0);
	bool whole = worker->ticked_switches == worker->switches;
	worker->ticked_switches = worker->switches;
	if (!tek_ut__any_ready(worker)) {
		if (!tek_ut__timers_any() && !tek_ut__events_any())
			stop_ticking(worker);
		return false;
	}
	if (tek_ut__worker_count > 1)
		start_workers(worker);
	/* The thread may have run for a part of this quantum only. */
	return whole && has_had_time(worker) &&
	       tek_ut__sched->tick(worker, tek_ut__runs_on(worker));
}

/* Whether the calling thread has to yield. `pending`: the reasons to check that. */
static bool is_due(struct tek_worker *worker, unsigned int pending)
{
	/* Also a tick that arrived at a bad moment, and was counted then. */
	bool due = atomic_exchange(&worker->kicked, false);

	if (pending & TEK_PENDING_TICK && is_quantum_over(worker)) {
		due = count_tick(worker) || due;
		adapt_timer(worker);
	}
	/*
	 * Threads that the tick has woken may go before it: they have kicked this worker, just now.
	 * A later kick sets `pending` again, which the caller checks when it leaves the engine.
	 */
	__atomic_store_n(&tek_ut__here_find()->pending, 0, __ATOMIC_RELAXED);
	due = atomic_exchange(&worker->kicked, false) || due;
	if (tek_ut__critical_any() && !tek_ut__runs_on(worker)->sched.critical)
		return true;
	return due && tek_ut__any_ready(worker);
}

static void give_way(struct tek_worker *worker, unsigned int pending)
{
	uint64_t switches = worker->switches;

	/* The next thread has the quantum from here on, if it begins now. */
	if (pending & TEK_PENDING_TICK && !worker->polls)
		worker->ticked_switches = switches + 1;
	worker->retries = 0;
	worker->given_at = tek__now(CLOCK_MONOTONIC);
	tek_ut__yield(TEK_READY_PREEMPTED);
	/*
	 * No other thread ran. After a switch it may be on another worker, and this one another
	 * thread's.
	 */
	if (pending & TEK_PENDING_TICK && tek_ut__here_worker() == worker &&
	    worker->switches == switches)
		worker->ticked_switches = switches;
}

/* The kernel thread stops here, and another one carries the worker on. */
static void stop_here(struct tek_worker *worker)
{
	const uint64_t ticked = worker->ticked_switches;

	tek_ut__supplier_check(); /* for the next time */
	worker->ticked_switches = worker->switches + 1;
	if (tek_ut__carrier_stop_here(worker))
		tek_ut__here_worker()->given_at = tek__now(CLOCK_MONOTONIC);
	else
		worker->ticked_switches = ticked;
}

/* For a tick at a bad moment. */
static void try_again(struct tek_worker *worker)
{
	uint64_t now = tek__now(CLOCK_MONOTONIC);

	atomic_store(&worker->kicked, true); /* what was due stays due */
	if (now - worker->monitor_asked > MONITOR_NS) {
		/*
		 * A thread that is in the C library for so long may be blocked in the kernel there.
		 */
		if (worker->retries)
			tek_ut__monitor_wake();
		worker->monitor_asked = now;
	}
	const uint64_t interval = interval_of(worker), least = least_interval_of(worker) / 2;
	uint64_t soon = interval / 4 < RETRY_NS ? interval / 4 : RETRY_NS;
	soon = soon > least ? soon : least;
	if (worker->retries++ % (RETRIES + 1) < RETRIES)
		set_timer(atomic_load(&worker->carrier), soon, interval);
}

__attribute__((noinline)) void tek_ut__leave_pending(void)
{
	/* Again for a kick that has arrived meanwhile. */
	do {
		tek_ut__parallel_check();
		struct tek_worker *worker = tek_ut__enter();
		unsigned int pending = __atomic_exchange_n(&tek_ut__here_find()->pending, 0,
							   __ATOMIC_RELAXED);
		if (!worker || !tek_ut__runs_on(worker) || !is_due(worker, pending))
			continue;
		if (tek_ut__engine.preempt == TEK_PREEMPT_KLT)
			stop_here(worker);
		else
			give_way(worker, pending);
	} while (tek_ut__here_undefer());
	if (tek_ut__preempt_resumed && tek_ut__here_self())
		tek_ut__preempt_resumed(tek_ut__here_self(), false);
}

/*
 * The calling thread waits in the kernel, in a call that is restarted when the handler returns. It
 * leaves its worker to a spare carrier if another thread is ready. Returns whether.
 */
static bool leave_for_ready(struct tek_worker *worker, const ucontext_t *context)
{
	if (!tek_ut__any_ready(worker))
		return false;
	tek_ut__kernel_wait_found(context);
	if (!tek_ut__parallel())
		tek_ut__parallel_grant();
	struct tek_carrier *spare = tek_ut__carrier_spare();
	tek_ut__supplier_check(); /* for the next time */
	adapt_timer(worker);
	if (!spare)
		return false;
	worker->polls = 0;
	worker->retries = 0;
	worker->ticked_switches = worker->switches;
	tek_ut__carrier_leave_worker(worker, false);
	tek_ut__carrier_give_worker(spare, worker);
	tek_ut__monitor_wake();
	return true;
}

/* The thread can be taken off its worker where it was interrupted. */
static bool is_good_moment(const ucontext_t *context, const struct tek_uthread *self)
{
	uint64_t mask;

	/*
	 * In a handler of the program, and between its own masks, other threads would run with that
	 * mask.
	 */
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	if ((mask ^ self->mask) & ~tek_ut__own_signals())
		return false;
	return tek_ut__engine.preempt == TEK_PREEMPT_KLT ||
	       tek_ut__sections_allow(tek_ut__interrupted_at(context));
}

static void tick(ucontext_t *context, unsigned int pending)
{
	bool good = is_good_moment(context, tek_ut__here_self());

	/* With KLT preemption every moment is good, but not for all effects of a signal. */
	bool in_program = good && tek_ut__sections_allow(tek_ut__interrupted_at(context));

	if (!in_program && tek_ut__preempt_held)
		tek_ut__preempt_held(tek_ut__here_self(), context);
	if (!tek_ut__here_entry() && !in_program)
		return; /* without a worker: it waits for one at a better moment */
	struct tek_worker *worker = tek_ut__enter();
	bool due = is_due(worker, pending);
	const bool waits = pending & TEK_PENDING_TICK &&
			   tek_ut__kernel_wait_was_interrupted(context);
	if (waits && leave_for_ready(worker, context)) {
		tek_ut__here_undefer();
		return;
	}
	/*
	 * The next thread on this kernel thread needs it, and so does code of the program that runs
	 * here.
	 */
	if (good)
		tek_ut__tick_unblock();
	if (due) {
		if (!good)
			try_again(worker);
		else if (tek_ut__engine.preempt == TEK_PREEMPT_KLT)
			stop_here(worker);
		else
			give_way(worker, pending);
	} else if (waits && good && tek_ut__engine.preempt != TEK_PREEMPT_KLT) {
		/* No spare carrier: threads of equal rank run meanwhile, under each scheduler. */
		tek_ut__yield(TEK_READY_YIELDED);
	}
	/* At a bad moment the next tick handles what has arrived meanwhile. */
	if (tek_ut__here_undefer() && good)
		tek_ut__leave_pending();
	if (good && tek_ut__preempt_resumed)
		tek_ut__preempt_resumed(tek_ut__here_self(), in_program);
}

/* The running thread's, found again: it may have another address after a switch. */
static __attribute__((noinline)) int get_errno(void)
{
	__asm__ volatile("" ::: "memory");
	return errno;
}

static __attribute__((noinline)) void set_errno(int error)
{
	__asm__ volatile("" ::: "memory");
	errno = error;
}

/* The timer changes at once where no thread reaches the end of a section any more. */
static void note_cost(const struct tek_here *here)
{
	const uint64_t least = tek_ut__tick_cost_interval(&here->carrier->cost);

	if (!least || !here->worker)
		return;
	atomic_store_explicit(&here->worker->least_interval, least, memory_order_relaxed);
	if (here->defer && here->entry)
		adapt_timer(here->worker);
}

static void on_tick(siginfo_t *info, void *context)
{
	tek_ut__restart_sequence(context);
	const bool probe = tek_ut__tick_is_probe(info);
	/* A kick is a signal, too, but no quantum has passed. */
	unsigned int pending = info->si_code == SI_TIMER || probe ? TEK_PENDING_TICK
								  : TEK_PENDING_CHECK;
	int error = get_errno();
	struct tek_here *here = tek_ut__here_find();

	if (here->carrier && probe)
		note_cost(here);
	else if (here->carrier && here->worker && pending == TEK_PENDING_TICK &&
		 tek_ut__tick_cost_probe(&here->carrier->cost))
		return; /* the probe comes before the program */
	if (!here->self) {
		/* The carrier itself, without a thread to run: it polls for one anyway. */
		if (here->carrier && here->worker)
			stop_ticking(here->worker);
	} else if (here->defer) {
		__atomic_fetch_or(&here->pending, pending, __ATOMIC_RELAXED);
	} else {
		tek_ut__parallel_check();
		tick(context, pending);
	}
	set_errno(error);
}

int tek_ut__preempt_start(void)
{
	int error = tek_ut__sections_find();

	if (error)
		tek_ut__unpreempted_without_maps(error);
	return tek_ut__tick_start(on_tick);
}

void tek_ut__preempt_after_fork(struct tek_worker *worker, struct tek_carrier *carrier)
{
	atomic_store(&worker->ticking, false);
	atomic_store(&worker->kicked, false);
	tek_ut__preempt_add(carrier);
}
