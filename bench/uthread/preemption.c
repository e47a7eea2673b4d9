/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * preemption - what it costs to interrupt threads that only compute, by quantum.  Built with each
 * library of user-level threads (on/on.h).  --quantum-us is the quantum of that library, for the
 * timer to compare with.
 *
 * A round does the same work three times: by one thread alone, which nothing interrupts; by one
 * thread, with a bare timer whose signal has a handler that only counts; by two threads, half of
 * the work each, between which the library switches at the end of each quantum. Prints one line of
 * JSON.
 */
#include "on/on.h"

#include "../response/clock.h"
#include "../response/number.h"
#include "../response/pin.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 1000
#define LIMIT_S 300
#define LEAST_MS 40     /* of a measurement */
#define LEAST_QUANTA 16 /* in it */

static uint64_t quantum_us = 1000, rounds = 21, iterations;
static volatile sig_atomic_t signals;
static timer_t timer;

struct round {
	uint64_t alone_ns, signal_ns, threads_ns;
	uint64_t first_ns;    /* when the first of the two threads had done its half */
	unsigned int signals; /* of the bare timer */
};
static struct round results[ROUNDS_MAX];

static void count(int number)
{
	(void)number;
	signals = signals + 1;
}

static void make_timer(void)
{
	struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	sigemptyset(&action.sa_mask);
	if (sigaction(event.sigev_signo, &action, NULL) ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer))
		err(EXIT_FAILURE, "cannot make a timer");
}

/* 0 stops it. */
static void set_timer(uint64_t period_us)
{
	struct timespec period = {
		.tv_sec = (time_t)(period_us / 1000000),
		.tv_nsec = (long)(period_us % 1000000 * 1000),
	};
	struct itimerspec times = {.it_interval = period, .it_value = period};

	if (timer_settime(timer, 0, &times, NULL))
		err(EXIT_FAILURE, "cannot set a timer");
}

static uint64_t alone_ns(void)
{
	uint64_t begin = clock_ns();
	work(iterations);
	return clock_ns() - begin;
}

static uint64_t signal_ns(unsigned int *count)
{
	signals = 0;
	set_timer(quantum_us);
	uint64_t ns = alone_ns();
	set_timer(0);
	*count = (unsigned int)signals;
	return ns;
}

static void *do_half(void *ended_ns)
{
	work(iterations / 2);
	*(uint64_t *)ended_ns = clock_ns();
	return NULL;
}

static uint64_t threads_ns(uint64_t *first_ns)
{
	on_thread threads[2];
	uint64_t ended_ns[2];
	uint64_t begin = clock_ns();

	for (unsigned int i = 0; i < 2; i++)
		if (on_create(&threads[i], do_half, &ended_ns[i]))
			errx(EXIT_FAILURE, "cannot create a thread");
	for (unsigned int i = 0; i < 2; i++)
		on_join(&threads[i]);
	uint64_t ns = clock_ns() - begin;
	*first_ns = (ended_ns[0] < ended_ns[1] ? ended_ns[0] : ended_ns[1]) - begin;
	return ns;
}

/* The first of the three changes, so the after-effects of one fall on all alike. */
static void measure(struct round *result, uint64_t round)
{
	for (uint64_t i = 0; i < 3; i++) {
		switch ((round + i) % 3) {
		case 0:
			result->alone_ns = alone_ns();
			break;
		case 1:
			result->signal_ns = signal_ns(&result->signals);
			break;
		default:
			result->threads_ns = threads_ns(&result->first_ns);
			break;
		}
	}
}

static void read_arguments(int argc, char **argv)
{
	static const struct option known[] = {
		{"quantum-us", required_argument, NULL, 'q'},
		{"rounds", required_argument, NULL, 'r'},
		{0},
	};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 'q')
			quantum_us = number("quantum-us", optarg, 50, 1000000);
		else if (found == 'r')
			rounds = number("rounds", optarg, 1, ROUNDS_MAX);
		else
			exit(2);
	}
	if (optind < argc)
		errx(2, "usage: %s [--quantum-us N] [--rounds N]", argv[0]);
}

int main(int argc, char **argv)
{
	read_arguments(argc, argv);
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
	pin_to_last_cpu(NULL);
	uint64_t ms = quantum_us * LEAST_QUANTA / 1000;
	iterations = calibrate() * (ms > LEAST_MS ? ms : LEAST_MS);
	on_start();
	make_timer();
	struct round warm;
	measure(&warm, 0);
	for (uint64_t i = 0; i < rounds; i++)
		measure(&results[i], i);
	printf("{\"on\":\"%s\",\"quantum_us\":%" PRIu64 ",\"rounds\":[", ON_NAME, quantum_us);
	for (uint64_t i = 0; i < rounds; i++)
		printf("%s{\"alone_ns\":%" PRIu64 ",\"signal_ns\":%" PRIu64
		       ",\"threads_ns\":%" PRIu64 ",\"first_ns\":%" PRIu64 ",\"signals\":%u}",
		       i ? "," : "", results[i].alone_ns, results[i].signal_ns,
		       results[i].threads_ns, results[i].first_ns, results[i].signals);
	printf("]}\n");
	return EXIT_SUCCESS;
}
