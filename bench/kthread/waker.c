/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * waker - how soon the most urgent thread changes a priority after another one has woken it: the
 * lower bound for a process that reacts to the kernel.  As in tekd two threads wait, on two halves
 * of the CPUs, and the first to run does it.
 */
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REACTOR_PRIORITY 98
#define BOOST_PRIORITY 48

static int bell;
static pthread_t boosted;
static _Atomic uint64_t changed_ns;

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void set_priority(int priority)
{
	struct sched_param param = {.sched_priority = priority};
	int error = pthread_setschedparam(boosted, priority ? SCHED_FIFO : SCHED_OTHER, &param);
	if (error) {
		errno = error;
		err(EXIT_FAILURE, "cannot change a thread's priority");
	}
}

/* On every other CPU: those in even places, or in odd ones. */
static void stay_on_half(int half_number)
{
	cpu_set_t all, half;
	int seen = 0;
	CPU_ZERO(&half);
	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ % 2 == half_number)
			CPU_SET(cpu, &half);
	sched_setaffinity(0, sizeof(half), &half);
}

static void *react(void *half)
{
	struct pollfd rung = {.fd = bell, .events = POLLIN};
	uint64_t times;
	stay_on_half(*(int *)half);
	be_realtime(REACTOR_PRIORITY);
	for (;;) {
		poll(&rung, 1, -1);
		if (read(bell, &times, sizeof(times)) != (ssize_t)sizeof(times))
			continue; /* the other one was first */
		set_priority(BOOST_PRIORITY);
		atomic_store(&changed_ns, clock_ns());
	}
	return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	errno = pthread_create(thread, NULL, run, argument);
	if (errno)
		err(EXIT_FAILURE, "cannot create a thread");
}

int main(int argc, char **argv)
{
	uint64_t from_ns, to_ns, one = 1, iterations = 0;
	pthread_t reactors[2];
	int halves[] = {0, 1};

	if (argc != 3)
		errx(2,
		     "usage: waker PRIORITY PERIOD_US\n"
		     "How soon a woken thread of priority %d changes a priority.",
		     REACTOR_PRIORITY);
	int priority = (int)number("priority", argv[1], 1, 99);
	uint64_t period_ns = number("period", argv[2], 1000, 1000000) * NS_PER_US;
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (bell < 0)
		err(EXIT_FAILURE, "eventfd");
	lock_memory();
	start(&boosted, sleep_on, NULL);
	for (int i = 0; i < 2; i++)
		start(&reactors[i], react, &halves[i]);
	be_realtime(priority);
	wait_for_times(&from_ns, &to_ns);

	printf("{\"turns\":[");
	for (uint64_t due_ns = from_ns; due_ns < to_ns; due_ns += period_ns) {
		sleep_until(due_ns);
		uint64_t begin_ns = clock_ns();
		atomic_store(&changed_ns, 0);
		if (write(bell, &one, sizeof(one)) != (ssize_t)sizeof(one))
			err(EXIT_FAILURE, "eventfd");
		uint64_t end_ns = 0;
		while (!(end_ns = atomic_load(&changed_ns)))
			sleep_until(clock_ns() + NS_PER_MS);
		set_priority(0);
		printf("%s[%" PRIu64 ",%" PRIu64 "]", iterations++ ? "," : "", begin_ns - from_ns,
		       end_ns - begin_ns);
	}
	printf("],\"cpu_ns\":0,\"samples\":[]}\n");
	return EXIT_SUCCESS;
}
