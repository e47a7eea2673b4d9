/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/place.h"

#include "base/procfs.h"
#include "base/real.h"
#include "place/keeper.h"
#include "place/local.h"
#include "place/mask.h"
#include "place/number.h"
#include "threads/hooks.h"
#include "threads/process.h"
#include "threads/record.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <errno.h>

struct tek_mask tek__place_allowed;
static bool nowhere;     /* the process may use none of the CPUs */
static bool refused;     /* the policy; reported once */
static bool has_lost_it; /* a thread its place; reported once */

/* The policy with rtfifo: processes and threads that these threads start begin as SCHED_OTHER. */
#define FIFO (SCHED_FIFO | SCHED_RESET_ON_FORK)

/*
 * The calling thread's place: its CPU + 1, or 0, and which number that was.  Both are constant in
 * the thread but in the child of a fork, so that a signal handler may look.
 */
static __thread unsigned short own_place __attribute__((tls_model("initial-exec")));
static __thread unsigned int own_number __attribute__((tls_model("initial-exec")));

/* In fork(): whether the forking thread was moved, for its child. */
static __thread bool fork_moved __attribute__((tls_model("initial-exec")));

static unsigned short place_of_number(unsigned int number)
{
	const struct tek_place_config *config = &tek__place_config;
	return (unsigned short)(config->cpus[number % config->count] + 1);
}

/* In a smaller set of CPUs, or a container, only the list's CPUs in that set are used. */
static void keep_allowed(struct tek_place_config *config)
{
	unsigned int usable = 0;

	for (unsigned int i = 0; i < config->count; i++) {
		if (tek__mask_has(&tek__place_allowed, config->cpus[i]))
			config->cpus[usable++] = config->cpus[i];
	}
	config->count = usable;
}

void tek__place_start(void)
{
	tek__place_config_read();
	if (!tek__place_is_on())
		return;
	if (!tek__mask_get(0, &tek__place_allowed)) {
		tek__place_config.count = 0;
		return;
	}
	keep_allowed(&tek__place_config);
	if (tek__place_is_on())
		tek__number_start();
	else
		nowhere = true;
	if (tek__place_config.fifo_priority && !tek__keeper_start())
		tek__place_config.fifo_priority = 0;
}

unsigned short tek__place_own(void)
{
	const struct tek_thread *self = tek__thread_known_self();
	/* Another thread may set it just now. */
	return self && __atomic_load_n(&self->moved, __ATOMIC_RELAXED) ? 0 : own_place;
}

/* Whether the calling thread is where TEK put it. */
static bool is_in_place(void)
{
	struct tek_mask now;

	if (!tek__place_own())
		return false;
	const struct tek_mask given = tek__mask_of(own_place - 1u);
	return tek__mask_get(0, &now) && tek__mask_equal(&now, &given);
}

/*
 * The C library reports all CPUs for attributes without an affinity. The mask that TEK reports to
 * the program (tek__place_allowed) is no choice of the program's either.
 */
static bool has_affinity(const pthread_attr_t *attr)
{
	struct tek_mask mask;

	if (!attr || pthread_attr_getaffinity_np(attr, sizeof(mask), (cpu_set_t *)&mask) ||
	    tek__mask_equal(&mask, &tek__place_allowed))
		return false;
	for (size_t i = 0; i < sizeof(mask.words) / sizeof(mask.words[0]); i++) {
		if (mask.words[i] != ~0ul)
			return true;
	}
	return false;
}

static bool has_policy(const pthread_attr_t *attr)
{
	int scheduling;
	return attr && pthread_attr_getinheritsched(attr, &scheduling) == 0 &&
	       scheduling == PTHREAD_EXPLICIT_SCHED;
}

/*
 * Whether the calling thread has the policy that TEK gave it, as far as the program set no other.
 */
static bool is_fifo(void)
{
	const struct tek_thread *self = tek__thread_self();
	return tek__place_config.fifo_priority && self && self->seen.reset_on_fork &&
	       self->seen.policy == SCHED_FIFO &&
	       self->seen.rt_priority == tek__place_config.fifo_priority;
}

void tek__place_deal(struct tek_thread *thread, const pthread_attr_t *attr)
{
	thread->birth.fifo = !has_policy(attr) && is_fifo();
	if (has_affinity(attr) || !is_in_place())
		return;
	thread->birth.number = tek__number_next();
	thread->birth.place = place_of_number(thread->birth.number);
}

/* SCHED_FIFO, with the flag that keeps what the thread starts from it. */
static void set_policy(struct tek_thread *thread)
{
	const struct sched_param param = {.sched_priority = tek__place_config.fifo_priority};

	if (!tek__keeper_begin())
		return;
	if (tek__c_library.sched_setscheduler(thread->tid, FIFO, &param) == 0) {
		thread->seen.policy = SCHED_FIFO;
		thread->seen.rt_priority = tek__place_config.fifo_priority;
		thread->seen.reset_on_fork = true;
	} else if (!refused) {
		refused = true;
		tek__report_place("threads keep to their CPUs, but SCHED_FIFO is not allowed: "
				  "tek doctor says how to get it");
	}
}

/* Its CPU went offline, or was taken from the process: it may run on any CPU. Needs the lock. */
__attribute__((cold)) static void give_place_up(struct tek_thread *thread)
{
	struct tek_mask all;

	memset(&all, 0xff, sizeof(all));
	thread->birth.place = 0;
	if (!tek__mask_set(thread->tid, &tek__place_allowed))
		tek__mask_set(thread->tid, &all);
	if (!has_lost_it) {
		has_lost_it = true;
		tek__report_place("a CPU cannot be used any more: threads that it was dealt to, "
				  "and what they create, run where Linux likes");
	}
}

void tek__place_settle(struct tek_thread *thread)
{
	int saved = errno;

	if (thread->settled || !thread->tid)
		return;
	thread->settled = true;
	if (thread->birth.place) {
		const struct tek_mask mask = tek__mask_of(thread->birth.place - 1u);
		if (!tek__mask_set(thread->tid, &mask))
			give_place_up(thread);
	}
	if (thread->birth.fifo)
		set_policy(thread);
	errno = saved;
}

void tek__place_begun(const struct tek_birth *birth)
{
	own_place = birth->place;
	own_number = birth->number;
	if (own_place && tek__place_config.numa)
		tek__local_own_stack();
}

/* The calling thread, which was not created through TEK. */
static void place_self(unsigned int number)
{
	if (!tek__lock())
		return;
	struct tek_thread *self = tek__thread_self();
	if (self) {
		self->birth.number = number;
		self->birth.place = place_of_number(number);
		self->birth.fifo = tek__place_config.fifo_priority != 0;
		self->settled = false;
		tek__place_settle(self);
		tek__thread_publish(self);
		own_place = self->birth.place;
		own_number = number;
	}
	tek__unlock();
}

void tek__place_main(void)
{
	if (nowhere && tek__lock()) {
		tek__report_place("this process may use none of the CPUs: its threads run where "
				  "Linux likes");
		tek__unlock();
	}
	if (!tek__place_is_on())
		return;
	place_self(tek__number_of_program());
}

void tek__place_before_fork(void)
{
	fork_moved = own_place && !tek__place_own();
}

void tek__place_again(void)
{
	if (fork_moved)
		own_place = 0;
	if (is_in_place())
		place_self(tek__number_next());
}

/* Whether the kernel has a thread, 0 being the calling one, as TEK left it. */
static bool has_fifo_now(pid_t tid)
{
	struct sched_param param;
	return tek__place_config.fifo_priority && tek__c_library.sched_getscheduler(tid) == FIFO &&
	       tek__c_library.sched_getparam(tid, &param) == 0 &&
	       param.sched_priority == tek__place_config.fifo_priority;
}

void tek__place_leave(void)
{
	const struct sched_param none = {0};

	if (!tek__place_is_on())
		return;
	tek__mask_set(0, &tek__place_allowed);
	if (has_fifo_now(0))
		tek__c_library.sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
}

static void withdraw(struct tek_thread *thread, void *unused)
{
	const struct sched_param none = {0};
	struct tek_mask now;

	(void)unused;
	if (!thread->settled || !tek__thread_exists(thread))
		return;
	if (thread->birth.place && !thread->moved && tek__mask_get(thread->tid, &now)) {
		const struct tek_mask given = tek__mask_of(thread->birth.place - 1u);
		if (tek__mask_equal(&now, &given))
			tek__mask_set(thread->tid, &tek__place_allowed);
		/* From now on it is the program's. */
		__atomic_store_n(&thread->moved, true, __ATOMIC_RELAXED);
	}
	if (thread->birth.fifo && has_fifo_now(thread->tid) &&
	    tek__c_library.sched_setscheduler(thread->tid, SCHED_OTHER, &none) != 0)
		tek__c_library.sched_setscheduler(thread->tid, SCHED_OTHER | SCHED_RESET_ON_FORK,
						  &none);
}

/*
 * A thread that TEK has not met yet, because it has not run. It has its creator's affinity of
 * before.
 */
static void withdraw_unknown(pid_t tid, void *context)
{
	unsigned int *met = context;
	struct tek_mask now;

	if (tek__thread_known_tid(tid) || tek__hooks.is_helper(tid))
		return;
	(*met)++;
	if (!tek__mask_get(tid, &now))
		return;
	for (unsigned int i = 0; i < tek__place_config.count; i++) {
		const struct tek_mask place = tek__mask_of(tek__place_config.cpus[i]);
		if (tek__mask_equal(&now, &place))
			tek__mask_set(tid, &tek__place_allowed);
	}
}

/* A creator may be within clone(2): its thread appears in a moment. */
static void withdraw_starting(void)
{
	enum { MOST_CHECKS = 20, CHECK_NS = 500000 };
	const struct timespec pause = {.tv_nsec = CHECK_NS};

	for (int i = 0; i < MOST_CHECKS; i++) {
		unsigned int met = 0;
		tek__procfs_each_thread(withdraw_unknown, &met);
		if (met >= tek__threads_starting())
			return;
		syscall(SYS_nanosleep, &pause, NULL);
	}
}

void tek__place_withdraw(void)
{
	if (!tek__place_is_on())
		return;
	/* In this order: the threads that are created from now on inherit the new affinity. */
	tek__thread_each(withdraw, NULL);
	if (tek__threads_are_starting())
		withdraw_starting();
}

void tek__place_end_refused(void)
{
	if (!tek__place_is_on())
		return;
	tek__place_withdraw();
	tek__place_config.count = 0;
	tek__place_config.fifo_priority = 0;
	tek__report_place("a seccomp filter refuses sched_setaffinity(2): threads run where Linux "
			  "likes from now on");
}

/*
 * The child of vfork() has its parent's variables, and a scheduling of its own: what the kernel
 * says counts, and it can be put back all the same.  The parent, which waits, is not between these
 * functions.
 */
static __thread struct {
	bool affinity, policy;
} stepped_out __attribute__((tls_model("initial-exec")));

bool tek__place_step_out(void)
{
	int saved = errno;

	if (!tek__place_is_on())
		return false;
	stepped_out.policy = false;
	stepped_out.affinity = is_in_place() && tek__mask_set(0, &tek__place_allowed);
	errno = saved;
	return true;
}

void tek__place_end(void)
{
	const struct sched_param none = {0};
	int saved = errno;

	if (!tek__place_is_on() || tek__is_confined())
		return;
	/* The child of vfork() has no number: the program in it gets the next. */
	if (own_place && (pid_t)syscall(SYS_getpid) == tek__pid())
		tek__number_leave(own_number);
	/* Where the thread has an affinity of its own too. Without CAP_SYS_NICE the flag stays. */
	stepped_out.policy = has_fifo_now(0) &&
			     tek__c_library.sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK,
							       &none) == 0;
	errno = saved;
}

/*
 * The calling thread's CPU is gone since it stepped out. The child of vfork() reports that to no
 * thread.
 */
__attribute__((cold)) static void lose_place(void)
{
	if (!tek__lock())
		return;
	struct tek_thread *self = tek__thread_self();
	if (self)
		give_place_up(self);
	own_place = 0;
	tek__unlock();
}

void tek__place_step_in(void)
{
	const struct sched_param param = {.sched_priority = tek__place_config.fifo_priority};
	int saved = errno;

	if (!tek__place_is_on())
		return;
	if (stepped_out.affinity) {
		const struct tek_mask mask = tek__mask_of(own_place - 1u);
		if (!tek__mask_set(0, &mask))
			lose_place();
	}
	if (stepped_out.policy && tek__keeper_begin())
		tek__c_library.sched_setscheduler(0, FIFO, &param);
	errno = saved;
}
