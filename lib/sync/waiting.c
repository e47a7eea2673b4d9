/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/waiting.h"

#include "sync/futex.h"

#include <limits.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After so many spin iterations a real-time thread naps each time, so that lower priorities run. */
#define ITERATIONS_AWAKE (1u << 16)
#define MOMENT_NS 50000

#define ITERATION_NS 50
#define PAUSES_MAX 32

const struct tek_sync_host *tek_sync__host;
unsigned int tek_sync__spin_limit = 100;
unsigned int tek_sync__iteration_pauses = 1;

static long ns_of_pauses(unsigned int pauses)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned int i = 0; i < pauses; i++)
		tek__relax_cpu();
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
}

/* The least of some measurements: other threads may have run in between. It takes 1 to 4 us. */
__attribute__((constructor)) static void measure_iteration(void)
{
	enum { TRIES = 5, PAUSES = 16 };
	long least = LONG_MAX, reading = LONG_MAX;

	for (int i = 0; i < TRIES; i++) {
		const long ns = ns_of_pauses(PAUSES), none = ns_of_pauses(0);
		least = ns < least ? ns : least;
		reading = none < reading ? none : reading;
	}
	if (least <= reading)
		return;
	const long pauses = (2L * ITERATION_NS * PAUSES / (least - reading) + 1) / 2; /* rounded */
	if (pauses > 1)
		tek_sync__iteration_pauses = (unsigned int)(pauses < PAUSES_MAX ? pauses
										: PAUSES_MAX);
}

static atomic_bool is_confined;

void tek_sync__waiting_is_confined(void)
{
	atomic_store_explicit(&is_confined, true, memory_order_relaxed);
}

/*
 * The kernel is asked: in a program with libtek.so the C library says SCHED_TEK of a thread that is
 * real-time by it.
 */
static long policy(void)
{
	if (atomic_load_explicit(&is_confined, memory_order_relaxed))
		return SCHED_OTHER;
	const int before = errno;
	const long result = syscall(SYS_sched_getscheduler, 0);

	errno = before;
	return result < 0 ? SCHED_OTHER : result & ~SCHED_RESET_ON_FORK;
}

bool tek_sync__is_real_time(void)
{
	const long mine = policy();
	return mine == SCHED_FIFO || mine == SCHED_RR || mine == SCHED_DEADLINE;
}

int tek_sync__urgency(void)
{
	struct sched_param param = {0};
	const int before = errno;

	if (tek_sync__on_user_level())
		return 0;
	const long mine = policy();
	if (mine == SCHED_DEADLINE)
		return INT_MAX;
	if (mine != SCHED_FIFO && mine != SCHED_RR)
		return 0;
	syscall(SYS_sched_getparam, 0, &param);
	errno = before;
	return param.sched_priority;
}

/* By futex(2), because clock_nanosleep(2) would be a cancellation point. */
void tek_sync__nap(long ns)
{
	atomic_uint nobody = 0;

	if (tek_sync__on_user_level()) {
		tek_sync__host->yield();
		return;
	}
	const struct timespec end = tek__in_ns(ns);
	tek_sync__futex_wait_until(&nobody, 0, (struct tek_until){CLOCK_MONOTONIC, &end});
}

/* Under SCHED_DEADLINE sched_yield(2) would give up all that is left until the next period. */
static void yield(void)
{
	if (atomic_load_explicit(&is_confined, memory_order_relaxed) || policy() == SCHED_DEADLINE)
		tek_sync__nap(MOMENT_NS);
	else
		sched_yield();
}

void tek_sync__give_way(void)
{
	if (tek_sync__on_user_level())
		tek_sync__host->yield();
	else
		yield();
}

void tek_sync__spin_long(unsigned int iterations)
{
	if (tek_sync__on_user_level())
		tek_sync__host->yield();
	else if (!tek_sync__is_real_time())
		return;
	else if (iterations < ITERATIONS_AWAKE)
		yield();
	else
		tek_sync__nap(MOMENT_NS);
}

int tek_sync__time_is_left(struct tek_until until)
{
	struct timespec now;

	if (!tek__is_time(until.at))
		return EINVAL;
	clock_gettime(until.clock, &now);
	if (now.tv_sec != until.at->tv_sec)
		return now.tv_sec > until.at->tv_sec ? ETIMEDOUT : 0;
	return now.tv_nsec >= until.at->tv_nsec ? ETIMEDOUT : 0;
}

/*
 * The values of a sleeper's word. A user-level thread may end, and its memory go, at any time: so
 * it does not leave before its waker has let go of it. Of a kernel thread the waker needs the
 * address only.
 */
enum { ASLEEP, AWAKE, LET_GO };

void tek_sync__sleeper_init(struct tek_sleeper *sleeper)
{
	atomic_init(&sleeper->awake, ASLEEP);
	sleeper->thread = tek_sync__host ? tek_sync__host->self() : NULL;
}

/* Acquires what its waker has released. */
static bool is_awake(struct tek_sleeper *sleeper)
{
	return atomic_load_explicit(&sleeper->awake, memory_order_acquire) != ASLEEP;
}

static void wait_until_let_go(struct tek_sleeper *sleeper)
{
	struct tek_spinning spinning = {0};

	while (atomic_load_explicit(&sleeper->awake, memory_order_acquire) != LET_GO)
		tek_sync__spin(&spinning);
}

int tek_sync__sleep(struct tek_sleeper *sleeper, struct tek_until until)
{
	int error = 0;

	while (!is_awake(sleeper) && !error)
		error = sleeper->thread
				? tek_sync__host->park(until)
				: tek_sync__futex_wait_until(&sleeper->awake, ASLEEP, until);
	if (!is_awake(sleeper))
		return error;
	if (sleeper->thread)
		wait_until_let_go(sleeper);
	return 0;
}

void tek_sync__awaken(struct tek_sleeper *sleeper)
{
	void *thread = sleeper->thread;

	atomic_store_explicit(&sleeper->awake, AWAKE, memory_order_release);
	if (thread) {
		tek_sync__host->unpark(thread);
		atomic_store_explicit(&sleeper->awake, LET_GO, memory_order_release);
	} else {
		tek_sync__futex_wake(&sleeper->awake, 1);
	}
}
