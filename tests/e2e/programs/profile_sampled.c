/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads that work, allocate and write files in shares that a sampler measures.  About each
 * 0.5 ms a timer's signal counts the thread's present part.  A late signal does not count: the
 * thread had no CPU then, which happens more often in system calls.
 * Prints the shares of samples in 1/1000: in files, in the allocator.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { FILES, ALLOCATOR, WORK, PARTS };

#define LATE_NS 100000u

static volatile __thread int at;
static __thread timer_t timer;
static __thread unsigned int seed;
static __thread uint64_t due;
static int samples[PARTS];
static volatile unsigned long sink;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* After 0.25 to 0.75 ms: a fixed period could be in step with the thread's own loop. */
static void sample_soon(void)
{
	seed = seed * 1103515245 + 12345;
	const long ns = 250000 + (seed >> 8) % 500000;
	struct itimerspec once = {{0, 0}, {0, ns}};
	due = now() + (uint64_t)ns;
	if (timer_settime(timer, 0, &once, NULL))
		abort();
}

static void sample(int number)
{
	(void)number;
	if (now() - due < LATE_NS)
		__atomic_fetch_add(&samples[at], 1, __ATOMIC_RELAXED);
	sample_soon();
}

static void begin_to_sample(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};

	event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	seed = (unsigned int)event.sigev_notify_thread_id;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		abort();
	sample_soon();
}

static void *run(void *unused)
{
	static char bytes[1 << 17];
	void *blocks[64];
	const int file = memfd_create("sampled", 0);

	begin_to_sample();
	for (int i = 0; i < 4000; i++) {
		at = WORK;
		for (unsigned long k = 0; k < 60000; k++)
			sink += k;
		at = ALLOCATOR;
		for (int k = 0; k < 64; k++)
			blocks[k] = calloc(1, 8000);
		for (int k = 0; k < 64; k++)
			free(blocks[k]);
		at = FILES;
		for (int k = 0; k < 3; k++)
			if (pwrite(file, bytes, sizeof(bytes), 0) < 0)
				abort();
	}
	at = WORK;
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	signal(SIGPROF, sample);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	const int all = samples[FILES] + samples[ALLOCATOR] + samples[WORK];
	printf("%d %d of %d\n", samples[FILES] * 1000 / all, samples[ALLOCATOR] * 1000 / all, all);
	return 0;
}
