/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/guard.h"

#include "base/clock.h"
#include "mediate/config.h"
#include "mediate/lone.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "threads/helper.h"
#include "threads/hooks.h"
#include "threads/process.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

enum {
	/* Looks without any Fast thread before the guard sleeps for good: a program that
	   enters and leaves often then need not wake it each time. */
	LINGER_SAMPLES = TEK_GUARD_SAMPLES,
};

static uint64_t run_once(void);
static bool has_work(void);

static struct tek_helper guard = {
	.name = "tek-guard",
	.stack_bytes = 128 * 1024,
	.run_once = run_once,
	.has_work = has_work,
	.sleeps_until_ns = UINT64_MAX,
};
static unsigned int sample;                   /* number of the newest look; its slot in the rings */
static uint64_t sample_ns[TEK_GUARD_SAMPLES]; /* when the last looks were, a ring */
static uint64_t next_sample_ns;
static unsigned int idle_samples = LINGER_SAMPLES;
static uint64_t rttime_ns; /* RLIMIT_RTTIME when the guard was made; 0: none */

/* The timers in the place of the guard, and where their present account began. */
static struct {
	bool run;
	uint64_t since_ns, cpu_ns;
} lone;

static uint64_t sample_interval(void)
{
	return tek__config.budget.window_ns / TEK_GUARD_SAMPLES;
}

/*
 * CPU time that a thread has used in the Fast Region since ever: what was booked
 * when it left, and what came since it entered.
 */
static uint64_t fast_cpu_time(const struct tek_member *member, uint64_t cpu)
{
	return member->fast_cpu_ns + (member->fast ? cpu - member->cpu_at_entry_ns : 0);
}

uint64_t tek__guard_fast_cpu(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	uint64_t cpu = member->cpu_at_entry_ns;

	if (member->fast)
		tek__thread_cpu_time(thread->tid, &cpu);
	return fast_cpu_time(member, cpu);
}

/* Whether so much CPU time is more than the budget allows for that long. */
static bool is_over(const struct tek_budget *budget, uint64_t used_ns, uint64_t elapsed_ns)
{
	double windows = (double)elapsed_ns / (double)budget->window_ns;

	if (windows < 1)
		windows = 1;
	return budget->cpu_ns && (double)used_ns > (double)budget->cpu_ns * windows;
}

static void begin_own_window(struct tek_member *member, uint64_t now, uint64_t fast_cpu)
{
	member->own_since_ns = now;
	member->own_cpu_ns = fast_cpu;
}

/*
 * The budget: fast_cpu[] holds that time at the last looks, so the slot of the
 * present look still has the value of one window ago, or of somewhat longer ago if
 * the guard itself came late.
 */
static void check_budget(struct tek_thread *thread, void *context)
{
	const uint64_t *elapsed = context;
	struct tek_member *member = &thread->member;
	uint64_t *slot = &member->fast_cpu[sample % TEK_GUARD_SAMPLES];
	uint64_t cpu;

	if (!tek__thread_cpu_time(thread->tid, &cpu)) {
		tek__thread_free(thread); /* it exited without its destructor */
		return;
	}
	uint64_t now = fast_cpu_time(member, cpu);
	uint64_t used = now - *slot;
	*slot = now;
	member->last_sample = sample;
	if (!member->own_budget && is_over(&tek__config.budget, used, *elapsed))
		tek__region_expel(thread, used);
}

struct deadlines {
	uint64_t now, earliest;
};

/* A budget of the thread's own has looks of its own, as many in its window. */
static void sample_own_budget(struct tek_thread *thread, uint64_t now, uint64_t fast_cpu)
{
	struct tek_member *member = &thread->member;
	struct tek_budget budget = tek__guard_budget(thread);
	uint64_t used = fast_cpu - member->own_cpu_ns;
	uint64_t elapsed = now - member->own_since_ns;

	if (is_over(&budget, used, elapsed))
		tek__region_expel(thread, used);
	if (elapsed >= budget.window_ns)
		begin_own_window(member, now, fast_cpu);
	member->own_sample_ns = now + budget.window_ns / TEK_GUARD_SAMPLES;
}

static void check_own_budget(struct tek_thread *thread, void *context)
{
	struct deadlines *deadlines = context;
	struct tek_member *member = &thread->member;
	uint64_t cpu;

	if (!member->own_budget)
		return;
	if (member->own_sample_ns <= deadlines->now) {
		if (!tek__thread_cpu_time(thread->tid, &cpu))
			return; /* gone: the other budget's look will find out */
		sample_own_budget(thread, deadlines->now, fast_cpu_time(member, cpu));
	}
	if (member->fast && member->own_sample_ns < deadlines->earliest)
		deadlines->earliest = member->own_sample_ns;
}

static void check_deadline(struct tek_thread *thread, void *context)
{
	struct deadlines *deadlines = context;
	uint64_t deadline = thread->member.deadline_ns;

	if (!(thread->member.reasons & TEK_WHY_TIMED))
		return;
	if (deadline <= deadlines->now)
		tek__region_drop(thread, TEK_WHY_TIMED);
	else if (deadline < deadlines->earliest)
		deadlines->earliest = deadline;
}

static void each_member(void (*check)(struct tek_thread *, void *), void *context)
{
	struct tek_thread *next;
	for (struct tek_thread *thread = tek__region_first(); thread; thread = next) {
		next = thread->member.region_next;
		check(thread, context);
		/* If other threads left with this one, begin again: a second check does no harm. */
		if (next && !next->member.fast)
			next = tek__region_first();
	}
}

/* One turn of the guard: what is due now; returns when to come back. */
static uint64_t run_once(void)
{
	const uint64_t began_cpu_ns = tek__now(CLOCK_THREAD_CPUTIME_ID);
	struct deadlines deadlines = {
		.now = tek__now(CLOCK_MONOTONIC),
		.earliest = UINT64_MAX,
	};

	if (deadlines.now >= next_sample_ns) {
		uint64_t *slot = &sample_ns[++sample % TEK_GUARD_SAMPLES];
		uint64_t elapsed = deadlines.now - *slot;
		*slot = deadlines.now;
		each_member(check_budget, &elapsed);
		next_sample_ns = deadlines.now + sample_interval();
		idle_samples = tek__region_first() ? 0 : idle_samples + 1;
	}
	each_member(check_own_budget, &deadlines);
	each_member(check_deadline, &deadlines);
	uint64_t readmission = tek__region_readmit(deadlines.now);
	if (readmission < deadlines.earliest)
		deadlines.earliest = readmission;
	uint64_t over = tek__hooks.waits_are_over(deadlines.now);
	if (over < deadlines.earliest)
		deadlines.earliest = over;
	if (idle_samples < LINGER_SAMPLES && next_sample_ns < deadlines.earliest)
		deadlines.earliest = next_sample_ns;
	/* With many threads, or on a slow processor, this may take longer than a window's part. */
	return tek__due_after_rest(began_cpu_ns, deadlines.earliest);
}

/* A Fast thread is never without the guard. */
static bool has_work(void)
{
	return tek__region_first() != NULL;
}

static int create(const struct tek_rt_range *range, bool is_trial)
{
	if (is_trial)
		return tek__helper_try(&guard, SCHED_FIFO, range->guard, tek__rt_learn_flag);
	int error = tek__helper_start(&guard, SCHED_FIFO, range->guard);

	if (!error)
		tek__rt_learn_flag(guard.tid);
	return error;
}

/*
 * RLIMIT_RTTIME kills a process when a real-time thread of it runs that long without a break. Where
 * a program has set it, the budget guard has to act first.
 */
static void respect_rttime(struct tek_budget *budget)
{
	if (budget->window_ns > 4 * rttime_ns)
		budget->window_ns = 4 * rttime_ns > TEK_WINDOW_MIN_NS ? 4 * rttime_ns
								      : TEK_WINDOW_MIN_NS;
	if (budget->cpu_ns == 0 || budget->cpu_ns > rttime_ns / 2)
		budget->cpu_ns = rttime_ns / 2;
}

static void learn_rttime(void)
{
	struct rlimit limit;

	rttime_ns = 0;
	if (getrlimit(RLIMIT_RTTIME, &limit) || limit.rlim_cur > TEK_WINDOW_MAX_NS / 1000)
		return;
	rttime_ns = (uint64_t)limit.rlim_cur * 1000;
	respect_rttime(&tek__config.budget);
}

struct tek_budget tek__guard_budget(const struct tek_thread *thread)
{
	struct tek_budget budget = thread->member.own_budget ? thread->member.budget
							     : tek__config.budget;

	if (rttime_ns)
		respect_rttime(&budget);
	return budget;
}

/* The guard may sleep longer than to the next look at the thread's own budget. */
static void sample_soon(struct tek_thread *thread)
{
	uint64_t interval = tek__guard_budget(thread).window_ns / TEK_GUARD_SAMPLES;

	thread->member.own_sample_ns = tek__now(CLOCK_MONOTONIC) + interval;
	tek__guard_deadline(thread->member.own_sample_ns);
}

/* A new account of the only thread. */
static void watch_lone(const struct tek_thread *thread)
{
	lone.since_ns = tek__now(CLOCK_MONOTONIC);
	tek__thread_cpu_time(thread->tid, &lone.cpu_ns);
	tek__lone_after_cpu(tek__guard_budget(thread).cpu_ns);
}

void tek__guard_set_budget(struct tek_thread *thread, const struct tek_budget *budget)
{
	struct tek_member *member = &thread->member;
	bool begins = budget && !member->own_budget;
	uint64_t cpu = 0;

	member->own_budget = budget;
	if (budget)
		member->budget = *budget;
	if (begins && (!member->fast || tek__thread_cpu_time(thread->tid, &cpu)))
		begin_own_window(member, tek__now(CLOCK_MONOTONIC), fast_cpu_time(member, cpu));
	if (lone.run && member->fast)
		watch_lone(thread);
	else if (budget && member->fast)
		sample_soon(thread);
}

/* The guard, or a trial: a thread that ends at once, as the proof that it could be made. */
static int start(bool is_trial)
{
	learn_rttime();

	struct tek_rt_range range = tek__rt_range(true);
	tek__rt_use(range);
	int error = create(&range, is_trial);
	if (error == EPERM) {
		range = tek__rt_range(false);
		tek__rt_use(range);
		if (range.guard > 0)
			error = create(&range, is_trial);
	}
	return error == EPERM ? EPERM : error ? EAGAIN : 0;
}

static void end_lone(void)
{
	lone.run = false;
	tek__lone_end();
	tek__guard_budget_changed();
}

int tek__guard_start(void)
{
	if (guard.running)
		return 0;
	int error = start(false);
	if (!error && lone.run)
		end_lone();
	return error;
}

static void check_lone(struct tek_thread *thread)
{
	const struct tek_budget budget = tek__guard_budget(thread);
	uint64_t cpu;

	if (!tek__thread_cpu_time(thread->tid, &cpu))
		return;
	const uint64_t used = cpu - lone.cpu_ns;
	if (used < budget.cpu_ns)
		tek__lone_after_cpu(budget.cpu_ns - used);
	else if (is_over(&budget, used, tek__now(CLOCK_MONOTONIC) - lone.since_ns))
		tek__region_expel(thread, used);
	else
		watch_lone(thread);
}

/* In a signal handler. */
static void lone_expired(void)
{
	struct tek_thread *thread = tek__region_first();

	if (!lone.run)
		return;
	if (thread)
		check_lone(thread);
	tek__lone_at(tek__region_readmit(tek__now(CLOCK_MONOTONIC)));
}

/* With libtek-uthread-native.so, threads share the kernel thread that has the timers. */
#pragma weak tek_uthread_self
void tek_uthread_self(void);

static bool is_lone(const struct tek_thread *thread)
{
	return thread->member.reasons == TEK_WHY_RULE && thread == tek__thread_known_self() &&
	       tek__threads_living() == 1 && !tek_uthread_self;
}

int tek__guard_start_for(const struct tek_thread *thread)
{
	if (guard.running || !is_lone(thread))
		return tek__guard_start();
	if (lone.run)
		return 0;
	int error = start(true);
	if (error)
		return error;
	lone.run = tek__lone_start(lone_expired);
	return lone.run ? 0 : tek__guard_start();
}

bool tek__guard_is_lone(void)
{
	return __atomic_load_n(&lone.run, __ATOMIC_RELAXED);
}

bool tek__guard_is(pid_t tid)
{
	return tek__helper_is(&guard, tid);
}

static void fill_samples(struct tek_member *member, unsigned int count, uint64_t value)
{
	if (count > TEK_GUARD_SAMPLES)
		count = TEK_GUARD_SAMPLES;
	for (unsigned int i = 0; i < count; i++)
		member->fast_cpu[(sample - i) % TEK_GUARD_SAMPLES] = value;
	member->last_sample = sample;
}

void tek__guard_enter(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	unsigned int missed = member->stays + member->lifts > 1 ? sample - member->last_sample
								: TEK_GUARD_SAMPLES;

	/* At the looks since it left last it had used what it had used then. */
	fill_samples(member, missed, member->fast_cpu_ns);
	tek__thread_cpu_time(thread->tid, &member->cpu_at_entry_ns);
	if (lone.run) {
		watch_lone(thread);
		return;
	}
	if (member->own_budget) {
		uint64_t now = tek__now(CLOCK_MONOTONIC);
		if (now - member->own_since_ns >= tek__guard_budget(thread).window_ns)
			begin_own_window(member, now, member->fast_cpu_ns);
		sample_soon(thread);
	}

	if (idle_samples >= LINGER_SAMPLES) {
		/* There were no looks for a while: the present window begins now. */
		uint64_t now = tek__now(CLOCK_MONOTONIC);
		for (unsigned int i = 0; i < TEK_GUARD_SAMPLES; i++)
			sample_ns[i] = now;
		next_sample_ns = now + sample_interval();
		tek__helper_wake(&guard);
	}
	idle_samples = 0;
}

void tek__guard_leave(struct tek_thread *thread)
{
	struct tek_member *member = &thread->member;
	uint64_t cpu = member->cpu_at_entry_ns;

	tek__thread_cpu_time(thread->tid, &cpu);
	member->fast_cpu_ns = fast_cpu_time(member, cpu);
	if (lone.run)
		tek__lone_after_cpu(0);
}

void tek__guard_deadline(uint64_t deadline_ns)
{
	if (lone.run)
		tek__guard_start();
	if (deadline_ns < guard.sleeps_until_ns)
		tek__helper_wake(&guard);
}

void tek__guard_budget_changed(void)
{
	uint64_t now = tek__now(CLOCK_MONOTONIC), cpu;

	/*
	 * The earlier checks were at other distances: the new window begins now, for all threads.
	 */
	sample += TEK_GUARD_SAMPLES;
	for (unsigned int i = 0; i < TEK_GUARD_SAMPLES; i++)
		sample_ns[i] = now;
	for (struct tek_thread *thread = tek__region_first(); thread;
	     thread = thread->member.region_next)
		if (tek__thread_cpu_time(thread->tid, &cpu))
			fill_samples(&thread->member, TEK_GUARD_SAMPLES,
				     fast_cpu_time(&thread->member, cpu));
	next_sample_ns = now + sample_interval();
	if (tek__region_first())
		idle_samples = 0;
	if (lone.run && tek__region_first())
		watch_lone(tek__region_first());
	tek__helper_wake(&guard);
}

bool tek__guard_let_go(pthread_t *handle)
{
	return tek__helper_let_go(&guard, handle);
}

void tek__guard_forget(void)
{
	tek__helper_forget(&guard);
	if (lone.run)
		tek__lone_end();
	lone.run = false;
	next_sample_ns = 0;
	idle_samples = LINGER_SAMPLES;
}
