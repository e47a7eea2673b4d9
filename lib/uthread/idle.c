/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/idle.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/critical.h"
#include "uthread/events.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

atomic_uint tek_ut__idle_workers;

/* Whether a worker waits for files and times, and until when. */
static atomic_bool somebody_polls;
static _Atomic uint64_t polls_until;

static void sleep_idle(struct tek_worker *worker)
{
	while (atomic_load(&worker->idle) == TEK_IDLE_SLEEPS)
		syscall(SYS_futex, &worker->idle, FUTEX_WAIT_PRIVATE, TEK_IDLE_SLEEPS, NULL, NULL,
			0);
}

/* In ns; UINT64_MAX: there is none. */
static uint64_t left_until(uint64_t time)
{
	if (time == UINT64_MAX)
		return time;
	const uint64_t now = tek__now(CLOCK_MONOTONIC);
	return time > now ? time - now : 0;
}

static void poll_idle(struct tek_worker *worker)
{
	uint64_t next = tek_ut__timers_run(), published;

	/*
	 * A nearer time after the announcement stops the wait: tek_ut__idle_timer_changed(). The
	 * wait must not be longer than announced: a new time between the two would stop no worker,
	 * and the announced one may be gone.
	 */
	do {
		published = next;
		atomic_store(&polls_until, published);
		next = tek_ut__timers_run();
	} while (next > published);
	/*
	 * Threads with expired deadlines are ready: with one kernel thread no other one stops the
	 * wait.
	 */
	tek_ut__events_run(tek_ut__any_ready(worker) ? 0 : left_until(next));
	atomic_store(&polls_until, 0);
	tek_ut__timers_run();
}

/* Until there may be a thread to run. */
static void wait_for_work(struct tek_worker *worker)
{
	bool polls = !atomic_exchange(&somebody_polls, true);

	atomic_store(&worker->idle, polls ? TEK_IDLE_POLLS : TEK_IDLE_SLEEPS);
	atomic_fetch_add(&tek_ut__idle_workers, 1);
	/* The thread that makes one ready polls idle workers afterwards: one sees the other. */
	tek_ut__fence();
	if (!tek_ut__any_ready(worker)) {
		if (polls)
			poll_idle(worker);
		else
			sleep_idle(worker);
	}
	atomic_fetch_sub(&tek_ut__idle_workers, 1);
	atomic_store(&worker->idle, TEK_IDLE_NO);
	if (!polls)
		return;
	atomic_store(&somebody_polls, false);
	/* Another worker has to poll, if this one runs a thread now. */
	if ((tek_ut__timers_any() || tek_ut__events_any()) && atomic_load(&tek_ut__idle_workers))
		tek_ut__idle_wake(NULL);
}

/* Returns whether it was idle. */
static bool wake(struct tek_worker *worker)
{
	unsigned int was = atomic_load(&worker->idle);

	if (was == TEK_IDLE_NO || !atomic_compare_exchange_strong(&worker->idle, &was, TEK_IDLE_NO))
		return false;
	if (was == TEK_IDLE_POLLS)
		tek_ut__events_stop_waiting();
	else
		syscall(SYS_futex, &worker->idle, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return true;
}

void tek_ut__idle_wake(struct tek_worker *worker)
{
	if (worker) {
		wake(worker);
		return;
	}
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (wake(&tek_ut__workers[i]))
			return;
	}
}

void tek_ut__idle_timer_changed(uint64_t deadline)
{
	tek_ut__fence();
	if (deadline < atomic_load_explicit(&polls_until, memory_order_relaxed))
		tek_ut__events_stop_waiting();
}

/*
 * Whether another carrier has to carry the worker on. `next`: the thread to run, NULL: none is
 * ready. A carrier for one thread does not wait with a worker: another worker may give it that
 * thread.
 */
static bool must_pass_on(const struct tek_carrier *carrier, const struct tek_uthread *next)
{
	if (!next)
		return carrier->dedicated || tek_ut__carrier_is_over(carrier);
	return !next->carrier && !tek_ut__carrier_may_run(carrier, next);
}

void tek_ut__idle(struct tek_carrier *carrier, struct tek_worker *worker)
{
	for (;;) {
		tek_ut__parallel_check();
		struct tek_uthread *next = worker->for_carrier;
		worker->for_carrier = NULL;
		if (!next)
			next = tek_ut__next(worker, NULL, TEK_READY_WOKEN);
		if (must_pass_on(carrier, next)) {
			tek_ut__carrier_pass_on(worker, next);
			return;
		}
		if (!next) {
			wait_for_work(worker);
			continue;
		}
		if (!atomic_load_explicit(&worker->ticking, memory_order_relaxed) &&
		    (tek_ut__any_ready(worker) || tek_ut__timers_any() || tek_ut__events_any()))
			tek_ut__preempt_needed(worker);
		if (next->carrier && next->carrier != carrier) {
			tek_ut__carrier_hand_over(worker, next);
			return;
		}
		tek_ut__switch(worker, &carrier->context, next);
		worker = tek_ut__here_worker();
	}
}

void tek_ut__idle_after_fork(void)
{
	atomic_store(&tek_ut__idle_workers, 0);
	atomic_store(&somebody_polls, false);
	atomic_store(&polls_until, 0);
}
