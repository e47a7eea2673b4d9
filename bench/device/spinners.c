/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spinners - time-critical threads that never wait, two on each CPU, for a bounded time: what is
 * left to all other threads?  Prints `ready` when all are critical, spins from FROM to TO,
 * CLOCK_MONOTONIC in ns, which it reads as a line from standard input, and prints the CPU time that
 * they had as JSON.
 */
#include "../response/clock.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#define PER_CPU 2
#define MAX_SECONDS 60
#define ROUND 1000

struct spinner {
	pthread_t handle;
	int cpu;
	int policy;
	uint64_t cpu_ns;
};

static struct spinner *spinners;
static unsigned count;
static pthread_barrier_t ready, go;
static uint64_t from_ns, to_ns;

static void *spin(void *arg)
{
	struct spinner *self = arg;
	struct sched_param param = {.sched_priority = 0};
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(self->cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		err(EXIT_FAILURE, "cannot stay on CPU %d", self->cpu);
	errno = pthread_setschedparam(pthread_self(), SCHED_TEK, &param);
	if (errno)
		err(EXIT_FAILURE, "cannot become time-critical");
	self->policy = (int)syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);

	sleep_until(from_ns);
	uint64_t begin = thread_cpu_ns();
	while (clock_ns() < to_ns)
		work(ROUND);
	self->cpu_ns = thread_cpu_ns() - begin;
	return NULL;
}

static void start(void)
{
	cpu_set_t cpus;
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		err(EXIT_FAILURE, "cannot tell the CPUs");
	count = PER_CPU * (unsigned)CPU_COUNT(&cpus);
	spinners = calloc(count, sizeof(*spinners));
	if (!spinners)
		err(EXIT_FAILURE, "cannot keep %u threads", count);
	pthread_barrier_init(&ready, NULL, count + 1);
	pthread_barrier_init(&go, NULL, count + 1);
	for (unsigned i = 0, cpu = 0; i < count; i++, cpu += i % PER_CPU == 0) {
		while (!CPU_ISSET(cpu, &cpus))
			cpu++;
		spinners[i].cpu = (int)cpu;
		errno = pthread_create(&spinners[i].handle, NULL, spin, &spinners[i]);
		if (errno)
			err(EXIT_FAILURE, "cannot start a thread");
	}
}

int main(void)
{
	char line[80];

	/* A program that can fill every CPU must end by itself. */
	alarm(MAX_SECONDS);
	start();
	pthread_barrier_wait(&ready);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return EXIT_SUCCESS;
	if (sscanf(line, "%" SCNu64 " %" SCNu64, &from_ns, &to_ns) != 2 || to_ns < from_ns ||
	    to_ns > clock_ns() + MAX_SECONDS * NS_PER_S)
		errx(2, "expected a line `FROM TO`, at most %d s, on standard input", MAX_SECONDS);
	pthread_barrier_wait(&go);
	printf("{\"fast\":[");
	for (unsigned i = 0; i < count; i++) {
		pthread_join(spinners[i].handle, NULL);
		printf("%s{\"cpu\":%d,\"policy\":%d,\"cpu_ns\":%" PRIu64 "}", i ? "," : "",
		       spinners[i].cpu, spinners[i].policy, spinners[i].cpu_ns);
	}
	printf("]}\n");
	return EXIT_SUCCESS;
}
