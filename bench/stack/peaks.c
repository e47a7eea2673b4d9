/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * peaks - what does it cost to ask how much of its stack a running thread has used, and does it
 * make memory resident?  Each batch asks all of many threads with default stacks, on one CPU, and
 * then makes as many bare system calls, which are the measure of the machine.
 * Prints one line of JSON.
 */
#include "maps.h"

#include "../response/clock.h"
#include "../response/pin.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#define THREADS 50
#define USED (40 * 1024) /* of its stack by each */
#define DEFAULT_BATCHES 501
#define MAX_BATCHES 100000

static pthread_t threads[THREADS];
static sem_t running;
static struct tek_stack_info first;

static __attribute__((noinline)) void use_stack(void)
{
	char used[USED];

	memset(used, 1, sizeof(used));
	/* As far as the compiler knows it is read, so it stays. */
	__asm__ volatile("" : : "r"(used) : "memory");
}

static void *sleep_for_ever(void *unused)
{
	use_stack();
	sem_post(&running);
	for (;;)
		pause();
	return unused;
}

static void start(void)
{
	sem_init(&running, 0, 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		errno = pthread_create(&threads[i], NULL, sleep_for_ever, NULL);
		if (errno)
			err(EXIT_FAILURE, "cannot start a thread");
	}
	for (unsigned int i = 0; i < THREADS; i++)
		while (sem_wait(&running))
			;
}

static double batch_ns(void)
{
	struct tek_stack_info info;
	int error = 0;
	uint64_t begin = clock_ns();

	for (unsigned int i = 0; i < THREADS; i++)
		error |= tek_stack_get(threads[i], &info);
	uint64_t end = clock_ns();
	if (error || info.bound_bytes < USED || info.bound_bytes < info.peak_bytes)
		errx(EXIT_FAILURE, "wrong: %" PRIu64 " to %" PRIu64 " bytes used, error %d",
		     info.peak_bytes, info.bound_bytes, error);
	return (double)(end - begin) / THREADS;
}

static double system_call_ns(void)
{
	uint64_t begin = clock_ns();

	for (unsigned int i = 0; i < THREADS; i++)
		syscall(SYS_gettid);
	return (double)(clock_ns() - begin) / THREADS;
}

static void print(const char *name, const double *ns, int batches)
{
	printf(",\"%s\":[", name);
	for (int i = 0; i < batches; i++)
		printf("%s%.1f", i ? "," : "", ns[i]);
	printf("]");
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : DEFAULT_BATCHES;

	if (argc > 2 || batches < 1 || batches > MAX_BATCHES) {
		fprintf(stderr, "Usage: %s [BATCHES]\nBATCHES: 1 to %d (default %d).\n", argv[0],
			MAX_BATCHES, DEFAULT_BATCHES);
		return 2;
	}
	alarm(120); /* it must end by itself, however busy the CPU is */
	double *ns = malloc(2 * (size_t)batches * sizeof(*ns));
	if (!ns)
		err(EXIT_FAILURE, "no memory");
	double *call_ns = ns + batches;
	memset(ns, 1, 2 * (size_t)batches * sizeof(*ns)); /* resident before it is measured */
	start();
	pin_to_last_cpu(NULL);
	errno = tek_stack_get(threads[0], &first);
	if (errno)
		err(EXIT_FAILURE, "cannot measure the stack of a thread");
	batch_ns();
	system_call_ns();
	resident_bytes();

	uint64_t before = resident_bytes();
	for (int i = 0; i < batches; i++) {
		ns[i] = batch_ns();
		call_ns[i] = system_call_ns();
	}
	uint64_t after = resident_bytes();
	printf("{\"under_tek\":true,\"threads\":%d,\"stack_bytes\":%" PRIu64
	       ",\"resident_before\":%" PRIu64 ",\"resident_after\":%" PRIu64,
	       THREADS, first.stack_bytes, before, after);
	print("ns", ns, batches);
	print("system_call_ns", call_ns, batches);
	printf("}\n");
	free(ns);
	return EXIT_SUCCESS;
}
