/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads.h"

#include "../response/clock.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* An idle thread works so long in each period. */
#define IDLE_WORK_US 20
#define IDLE_PERIOD_NS (2 * NS_PER_S)

/* Thousands of the usual 8 MiB would not fit everywhere. */
#define STACK_BYTES (64 << 10)

struct hog *hogs;

static struct load load;
static pthread_t *handles;
static pthread_barrier_t ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool gone;
/* Written before `gone`. */
static uint64_t from_ns, to_ns;
static atomic_bool stopped;
static _Atomic uint64_t latest_ns;

static void wait_for_go(void)
{
	pthread_mutex_lock(&lock);
	while (!gone)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void stay_on(int cpu)
{
	cpu_set_t only;
	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		err(EXIT_FAILURE, "cannot stay on CPU %d", cpu);
}

/*
 * A thread that gets no CPU notices late that its time has begun or is over, but does not use any
 * meanwhile either, so what it had is exact to one iteration.  A gap counts if a part of it is
 * inside.
 */
static void *hog_run(void *arg)
{
	struct hog *self = arg;
	uint64_t iteration = load.iterations_per_ms / 20, at_from = 0;
	bool counts = false;

	if (self->cpu >= 0)
		stay_on(self->cpu);
	pthread_barrier_wait(&ready);
	wait_for_go();
	for (uint64_t last = clock_ns(), now = last; now < to_ns && !atomic_load(&stopped);
	     last = now) {
		work(iteration);
		now = clock_ns();
		if (now < from_ns)
			continue;
		if (!counts)
			at_from = thread_cpu_ns();
		counts = true;
		uint64_t gap = (now < to_ns ? now : to_ns) - (last > from_ns ? last : from_ns);
		if (gap > self->stall_ns)
			self->stall_ns = gap;
	}
	self->cpu_ns = counts ? thread_cpu_ns() - at_from : 0;
	return NULL;
}

static void note_late(uint64_t late_ns)
{
	uint64_t latest = atomic_load(&latest_ns);
	while (late_ns > latest && !atomic_compare_exchange_weak(&latest_ns, &latest, late_ns))
		;
}

static void *idle_run(void *number)
{
	uint64_t due_ns, number_ns = (uintptr_t)number * IDLE_PERIOD_NS / load.idle;

	pthread_barrier_wait(&ready);
	wait_for_go();
	/* One after the other through the whole period. */
	for (due_ns = clock_ns() + number_ns;; due_ns += IDLE_PERIOD_NS) {
		sleep_until(due_ns);
		work(load.iterations_per_ms * IDLE_WORK_US / 1000);
		uint64_t now = clock_ns();
		note_late(now - due_ns);
		while (due_ns + IDLE_PERIOD_NS < now)
			due_ns += IDLE_PERIOD_NS;
	}
	return NULL;
}

static pthread_t create(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES > PTHREAD_STACK_MIN ? STACK_BYTES
									 : PTHREAD_STACK_MIN);
	errno = pthread_create(&thread, &attr, run, arg);
	if (errno)
		err(EXIT_FAILURE, "cannot start a thread");
	pthread_attr_destroy(&attr);
	return thread;
}

void load_start(const struct load *wanted)
{
	cpu_set_t cpus;
	int cpu = -1;

	load = *wanted;
	hogs = calloc(load.hogs + 1, sizeof(*hogs));
	handles = calloc(load.hogs + 1, sizeof(*handles));
	if (!hogs || !handles || sched_getaffinity(0, sizeof(cpus), &cpus))
		err(EXIT_FAILURE, "cannot keep %u threads", load.hogs);
	pthread_barrier_init(&ready, NULL, load.hogs + load.idle + 1);
	for (unsigned i = 0; i < load.hogs; i++) {
		do
			cpu = (cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(cpu, &cpus));
		hogs[i].cpu = load.pin ? cpu : -1;
		handles[i] = create(hog_run, &hogs[i]);
	}
	for (uintptr_t i = 0; i < load.idle; i++)
		pthread_detach(create(idle_run, (void *)i));
	pthread_barrier_wait(&ready);
}

void load_go(uint64_t from, uint64_t to)
{
	from_ns = from;
	to_ns = to;
	pthread_mutex_lock(&lock);
	gone = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void load_stop(void)
{
	atomic_store(&stopped, true);
}

void load_join(void)
{
	for (unsigned i = 0; i < load.hogs; i++)
		pthread_join(handles[i], NULL);
}

uint64_t idle_late_ns(void)
{
	return atomic_load(&latest_ns);
}
