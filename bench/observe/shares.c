/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * shares - what share of one CPU do CPU-bound threads at nice 1, 2, 3 and 4 get
 * (tek-2020, III-A)?  All are pinned to the same CPU; the answer is one line of JSON.
 */
#include "../response/clock.h"
#include "../response/pin.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define DEFAULT_SECONDS 4
#define MAX_SECONDS 60

struct spinner {
	pthread_t thread;
	int nice;
	uint64_t cpu_ns;
};

static pthread_barrier_t ready;
static atomic_bool stop;

static uint64_t cpu_time_ns(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static void *spin(void *arg)
{
	struct spinner *self = arg;
	id_t tid = (id_t)syscall(SYS_gettid);

	if (setpriority(PRIO_PROCESS, tid, self->nice))
		err(EXIT_FAILURE, "cannot take nice %d: start me with a nice value of 1 or less",
		    self->nice);
	pthread_barrier_wait(&ready);
	uint64_t begin = cpu_time_ns();
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		work(1000);
	self->cpu_ns = cpu_time_ns() - begin;
	return NULL;
}

static unsigned seconds_from(int argc, char **argv)
{
	char *end = NULL;
	unsigned long seconds = argc == 2 ? strtoul(argv[1], &end, 10) : DEFAULT_SECONDS;

	if (argc > 2 || (end && (*end || end == argv[1])) || seconds < 1 || seconds > MAX_SECONDS) {
		bool help = argc == 2 && !strcmp(argv[1], "--help");
		fprintf(help ? stdout : stderr,
			"Usage: %s [SECONDS]\n"
			"The CPU shares of four threads at nice 1, 2, 3, 4 on one CPU, as JSON.\n"
			"SECONDS: 1 to %d (default %d).\n",
			argv[0], MAX_SECONDS, DEFAULT_SECONDS);
		exit(help ? EXIT_SUCCESS : 2);
	}
	return (unsigned)seconds;
}

int main(int argc, char **argv)
{
	struct spinner spinners[THREADS];
	unsigned seconds = seconds_from(argc, argv);

	alarm(2 * seconds + 10); /* it must end by itself, however busy the CPU is */
	pin_to_last_cpu(NULL);   /* and with it the threads that it will start */
	pthread_barrier_init(&ready, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		spinners[i] = (struct spinner){.nice = i + 1};
		errno = pthread_create(&spinners[i].thread, NULL, spin, &spinners[i]);
		if (errno)
			err(EXIT_FAILURE, "cannot start a thread");
	}
	pthread_barrier_wait(&ready);
	sleep_until(clock_ns() + seconds * NS_PER_S);
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(spinners[i].thread, NULL);

	printf("{\"shares\":[");
	for (int i = 0; i < THREADS; i++)
		printf("%s{\"nice\":%d,\"cpu_ns\":%" PRIu64 "}", i ? "," : "", spinners[i].nice,
		       spinners[i].cpu_ns);
	printf("]}\n");
	return EXIT_SUCCESS;
}
