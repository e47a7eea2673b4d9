/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/worker.h"

#include "uthread/carrier.h"
#include "uthread/critical.h"
#include "uthread/engine.h"
#include "uthread/events.h"
#include "uthread/idle.h"
#include "uthread/preempt.h"
#include "uthread/sanitizer.h"
#include "uthread/shown.h"
#include "uthread/tls.h"
#include "uthread/trace.h"
#include "uthread/wait.h"

#include <sys/syscall.h>
#include <unistd.h>

struct tek_worker tek_ut__workers[TEK_WORKERS_MAX];
unsigned int tek_ut__worker_count;
const struct tek_sched *tek_ut__sched;
uint64_t tek_ut__idle_mask;
atomic_bool tek_ut__plain;

/* A worker that never waits polls files and times by itself, this often. A power of 2. */
#define SWITCHES_A_CHECK 64

#define RARELY(condition) __builtin_expect(condition, 0)

/* A critical thread is ready, or runs. */
__attribute__((cold, noinline)) static struct tek_uthread *
next_critical(struct tek_worker *worker, const struct tek_uthread *running, enum tek_ready why)
{
	struct tek_uthread *thread = tek_ut__critical_take(running);

	if (thread)
		return thread;
	if (running && running->sched.critical && why == TEK_READY_PREEMPTED)
		return NULL;
	return tek_ut__sched->next(worker, running, why);
}

static inline struct tek_uthread *next_one(struct tek_worker *worker,
					   const struct tek_uthread *running, enum tek_ready why)
{
	if (RARELY(tek_ut__critical_any() || (running && running->sched.critical)))
		return next_critical(worker, running, why);
	return tek_ut__sched->next(worker, running, why);
}

struct tek_uthread *tek_ut__next(struct tek_worker *worker, const struct tek_uthread *running,
				 enum tek_ready why)
{
	return next_one(worker, running, why);
}

bool tek_ut__any_ready(struct tek_worker *worker)
{
	return tek_ut__critical_any() || tek_ut__sched->any(worker);
}

/*
 * A thread has become ready for `at` (NULL: any): notifies a worker that is idle, or runs a lesser
 * one.
 */
static void announce_ready(struct tek_worker *from, struct tek_worker *at,
			   const struct tek_uthread *thread, enum tek_ready why)
{
	if (tek_ut__parallel()) {
		/*
		 * A worker that becomes idle sets that first, and then polls ready threads: one
		 * sees the other.
		 */
		tek_ut__fence();
		if (atomic_load_explicit(&tek_ut__idle_workers, memory_order_relaxed))
			tek_ut__idle_wake(at);
	}
	if (!at)
		at = from ? from : &tek_ut__workers[0];
	if (!atomic_load_explicit(&at->ticking, memory_order_relaxed))
		tek_ut__preempt_needed(at);
	/* A thread that yields has let the scheduler decide already. */
	if (why == TEK_READY_YIELDED || why == TEK_READY_PREEMPTED)
		return;
	const struct tek_uthread *running = tek_ut__runs_on(at);
	if (running && running != thread && tek_ut__goes_before(thread, running))
		tek_ut__preempt_kick(at);
}

__attribute__((noinline)) static void make_ready(struct tek_uthread *thread, enum tek_ready why)
{
	struct tek_worker *from = tek_ut__here_worker();
	struct tek_worker *at;

	tek_ut__trace_ready(thread, why);
	if (RARELY(thread->sched.critical)) {
		tek_ut__critical_add(thread);
		at = tek_ut__critical_place(from);
	} else {
		at = tek_ut__sched->ready(from, thread, why);
	}
	announce_ready(from, at, thread, why);
}

static inline bool is_ticking(const struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->ticking, memory_order_relaxed);
}

void tek_ut__ready(struct tek_uthread *thread, enum tek_ready why)
{
	struct tek_worker *worker = tek_ut__here_worker();

	/* With one worker and a running timer no worker has to be notified. */
	if (tek_ut__is_plain() && is_ticking(worker))
		tek_ut__sched->ready(worker, thread, why);
	else
		make_ready(thread, why);
}

void tek_ut__unpark(struct tek_uthread *thread)
{
	if (tek_ut__swap(&thread->token, TEK_TOKEN_UNPARKED) != TEK_TOKEN_PARKED)
		return;
	/* Parked: only the caller accesses it until it is ready. */
	atomic_store_explicit(&thread->token, TEK_TOKEN_NONE, memory_order_relaxed);
	tek_ut__ready(thread, TEK_READY_WOKEN);
}

__attribute__((noinline)) void tek_ut__settle(struct tek_worker *worker)
{
	struct tek_uthread *thread = worker->left.thread;
	enum tek_leaving leaving = worker->left.leaving;

	worker->left.leaving = TEK_LEFT_NOBODY;
	switch (leaving) {
	case TEK_LEFT_NOBODY:
		break;
	case TEK_LEFT_READY:
		tek_ut__ready(thread, worker->left.why);
		break;
	case TEK_LEFT_PARKED:
		if (!tek_ut__change(&thread->token, TEK_TOKEN_NONE, TEK_TOKEN_PARKED)) {
			/* It was unparked while it left. */
			atomic_store_explicit(&thread->token, TEK_TOKEN_NONE, memory_order_relaxed);
			tek_ut__ready(thread, TEK_READY_WOKEN);
		}
		break;
	case TEK_LEFT_ENDED:
		tek_ut__ended(thread);
		break;
	}
}

__attribute__((cold, noinline)) void tek_ut__note_kick(void)
{
	__atomic_fetch_or(&tek_ut__here_find()->pending, TEK_PENDING_CHECK, __ATOMIC_RELAXED);
}

/* The kernel thread gets the mask of the next thread. */
__attribute__((cold, noinline)) static void change_mask(struct tek_worker *worker, uint64_t mask)
{
	worker->kernel_mask = mask;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* Sets the next thread's own state (here.h). */
static inline void move_here(struct tek_worker *worker, struct tek_uthread *from,
			     struct tek_uthread *next, struct tek_carrier *carrier,
			     struct tek_uthread *self)
{
	struct tek_here *here = next->here;

	if (here) { /* storage of its own */
		here->worker = worker;
		__atomic_store_n(&here->entry, worker, __ATOMIC_RELAXED);
		here->carrier = carrier;
		tek_ut__tls_switch(next->tls);
		return;
	}
	here = tek_ut__here_find();
	from->defer = here->defer;
	here->defer = next->defer;
	here->self = self;
}

/* All but the switch itself. `self`: the next thread, NULL: the carrier's own context. */
static inline void prepare_switch(struct tek_worker *worker, struct tek_uthread *from,
				  struct tek_uthread *next, struct tek_carrier *carrier,
				  struct tek_uthread *self)
{
	worker->switches++;
	tek_ut__set_current(worker, self);
	uint64_t mask = self ? self->mask : worker->kernel_mask | tek_ut__idle_mask;
	if (RARELY(mask != worker->kernel_mask))
		change_mask(worker, mask);
	move_here(worker, from, next, carrier, self);
}

/* Where the switch is all there is to do: tek_ut__is_plain(). */
static inline void switch_plainly(struct tek_worker *worker, struct tek_uthread *from,
				  struct tek_uthread *next, struct tek_carrier *carrier,
				  struct tek_uthread *self)
{
	prepare_switch(worker, from, next, carrier, self);
	tek_ut__fiber_switch(from, next, false);
	tek__context_switch(&from->context, &next->context);
	/* Back, perhaps on another worker and another kernel thread. */
	tek_ut__fiber_arrived(from);
	tek_ut__after_switch(tek_ut__here_worker());
}

static inline void switch_to(struct tek_worker *worker, struct tek_uthread *from,
			     struct tek_uthread *next, struct tek_carrier *carrier,
			     struct tek_uthread *self)
{
	tek_ut__trace_switch(worker, from, next);
	switch_plainly(worker, from, next, carrier, self);
}

static inline struct tek_carrier *carrier_of(struct tek_worker *worker)
{
	return atomic_load_explicit(&worker->carrier, memory_order_relaxed);
}

void tek_ut__switch(struct tek_worker *worker, struct tek_uthread *from, struct tek_uthread *next)
{
	switch_to(worker, from, next, carrier_of(worker), next);
}

/*
 * No thread to run here, or one that belongs to another carrier: the carrier's own context
 * continues.
 */
__attribute__((noinline)) static void
leave_to_carrier(struct tek_worker *worker, struct tek_uthread *self, struct tek_uthread *next)
{
	struct tek_carrier *carrier = carrier_of(worker);

	worker->for_carrier = next;
	switch_to(worker, self, &carrier->context, carrier, NULL);
}

/* The calling thread leaves, as worker->left specifies, for `next`, or for no thread. */
static inline void go_on(struct tek_worker *worker, struct tek_uthread *self,
			 struct tek_uthread *next)
{
	if (next && !RARELY(next->carrier || self->carrier))
		switch_to(worker, self, next, carrier_of(worker), next);
	else
		leave_to_carrier(worker, self, next);
}

void tek_ut__move_to(struct tek_carrier *carrier)
{
	struct tek_uthread *self = tek_ut__here_self();

	self->carrier = carrier;
	leave_to_carrier(tek_ut__here_worker(), self, self);
}

/* Polls files and times, by a worker that always has a thread to run. */
__attribute__((noinline)) static void check(void)
{
	if (tek_ut__timers_any())
		tek_ut__timers_run();
	if (tek_ut__events_any())
		tek_ut__events_run(0);
}

/*
 * Without ticks a thread that yields in vain, again and again, has to poll for threads that could
 * go on.
 */
static inline void check_if_alone(void)
{
	if (tek_ut__engine.preempt == TEK_PREEMPT_OFF)
		check();
}

static inline bool is_time_to_check(const struct tek_worker *worker)
{
	return worker->switches % SWITCHES_A_CHECK == 0;
}

static inline void check_around(const struct tek_worker *worker)
{
	if (RARELY(is_time_to_check(worker)))
		check();
}

__attribute__((noinline)) static void
yield_unless_plain(struct tek_worker *worker, struct tek_uthread *self, enum tek_ready why)
{
	struct tek_uthread *next = next_one(worker, self, why);

	if (!next) {
		check_if_alone();
		return;
	}
	worker->left = (struct tek_left){self, TEK_LEFT_READY, why};
	go_on(worker, self, next);
}

/* The alignment of its branches to cache lines makes 1.5 ns: independent of the code before it. */
__attribute__((aligned(64))) void tek_ut__yield(enum tek_ready why)
{
	struct tek_worker *worker = tek_ut__here_worker();
	struct tek_uthread *self = tek_ut__here_self();

	tek_ut__shown_lives(self);
	check_around(worker);
	if (!tek_ut__is_plain() || !is_ticking(worker)) {
		yield_unless_plain(worker, self, why);
		return;
	}
	struct tek_uthread *next = tek_ut__sched->next(worker, self, why);
	if (!next) {
		check_if_alone();
		return;
	}
	/* No other worker can take it before it has left, and none has to be notified. */
	tek_ut__sched->ready(worker, self, why);
	switch_plainly(worker, self, next, carrier_of(worker), next);
}

/* It is unparked when it has left, or has been already: then it is ready, and still yields. */
static void leave_parked(struct tek_worker *worker, struct tek_uthread *self)
{
	worker->left = (struct tek_left){self, TEK_LEFT_PARKED, TEK_READY_WOKEN};
	go_on(worker, self, next_one(worker, NULL, TEK_READY_WOKEN));
}

__attribute__((noinline)) static void park_unless_plain(struct tek_worker *worker,
							struct tek_uthread *self)
{
	if (tek_ut__change(&self->token, TEK_TOKEN_UNPARKED, TEK_TOKEN_NONE))
		return;
	check_around(worker);
	leave_parked(worker, self);
}

static inline unsigned int token_of(const struct tek_uthread *self)
{
	return atomic_load_explicit(&self->token, memory_order_relaxed);
}

void tek_ut__park(void)
{
	struct tek_worker *worker = tek_ut__here_worker();
	struct tek_uthread *self = tek_ut__here_self();

	if (!tek_ut__is_plain()) {
		park_unless_plain(worker, self);
		return;
	}
	if (RARELY(token_of(self) != TEK_TOKEN_NONE)) {
		atomic_store_explicit(&self->token, TEK_TOKEN_NONE, memory_order_relaxed);
		return;
	}
	if (RARELY(is_time_to_check(worker))) {
		check();
		/* Its own deadline may have expired. */
		if (token_of(self) != TEK_TOKEN_NONE) {
			leave_parked(worker, self);
			return;
		}
	}
	/* No other thread runs before it has left. */
	atomic_store_explicit(&self->token, TEK_TOKEN_PARKED, memory_order_relaxed);
	struct tek_uthread *next = tek_ut__sched->next(worker, NULL, TEK_READY_WOKEN);
	if (next)
		switch_plainly(worker, self, next, carrier_of(worker), next);
	else
		leave_to_carrier(worker, self, NULL);
}

/*
 * With one worker the joining thread is woken at once, so that it may come next: it cannot run
 * before this one has left. A detached thread gives its own stack back, and needs it until then.
 */
static void leave_ended(struct tek_worker *worker, struct tek_uthread *self)
{
	if (!tek_ut__parallel() && !tek_ut__is_detached(self))
		tek_ut__ended(self);
	else
		worker->left = (struct tek_left){self, TEK_LEFT_ENDED, TEK_READY_WOKEN};
}

struct tek_uthread *tek_ut__end_current(void)
{
	struct tek_worker *worker = tek_ut__here_worker();
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_carrier *carrier = carrier_of(worker);

	leave_ended(worker, self);
	struct tek_uthread *next = next_one(worker, NULL, TEK_READY_WOKEN);
	if (RARELY(self->bound))
		atomic_store(&carrier->only, NULL);
	else if (next && !RARELY(next->carrier != NULL)) {
		tek_ut__trace_switch(worker, self, next);
		prepare_switch(worker, self, next, carrier, next);
		return next;
	}
	worker->for_carrier = next;
	tek_ut__trace_switch(worker, self, &carrier->context);
	prepare_switch(worker, self, &carrier->context, carrier, NULL);
	return &carrier->context;
}
