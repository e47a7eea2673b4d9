/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cost of calls of a thread library, on one CPU: a yield, creating and joining a thread, an
 * uncontended mutex, a condition variable by which two threads hand over to each other.  Built once
 * for each library (on/on.h), in C and in C++.
 *
 * Usage: PROGRAM [ROUNDS [--unpinned]].  Each round times one batch of every call. Prints one line
 * of JSON.
 */
#include "on/on.h"

#include "../response/clock.h"
#include "../response/pin.h"

#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEFAULT_ROUNDS 101
#define MAX_ROUNDS 10000
#define LIMIT_S 120

static on_mutex mutex;
static on_cond cond;
static unsigned int iteration; /* of the two: 0 is the one that measures */
static uint64_t wanted;        /* by the one that measures */
static volatile bool over;
static volatile uint64_t yields; /* of the partner */

static void create(on_thread *thread, void *(*routine)(void *))
{
	if (on_create(thread, routine, NULL))
		errx(EXIT_FAILURE, "cannot create a thread");
}

/* Of a batch that began then, for each of so many. */
static double since(uint64_t begin_ns, uint64_t count)
{
	return (double)(clock_ns() - begin_ns) / (double)count;
}

static void *yield_until_over(void *unused)
{
	while (!over) {
		yields = yields + 1;
		on_yield();
	}
	return unused;
}

/* Two threads yield to each other, and to no third one. */
static double yield_ns(uint64_t times)
{
	on_thread partner;

	over = false;
	create(&partner, yield_until_over);
	on_yield();
	yields = 0;
	uint64_t begin = clock_ns();
	for (uint64_t i = 0; i < times; i++)
		on_yield();
	double ns = since(begin, times + yields);
	over = true;
	on_join(&partner);
	return ns;
}

static void *do_nothing(void *argument)
{
	return argument;
}

static double create_ns(uint64_t times)
{
	uint64_t begin = clock_ns();

	for (uint64_t i = 0; i < times; i++) {
		on_thread thread;
		create(&thread, do_nothing);
		on_join(&thread);
	}
	return since(begin, times);
}

static void *wait_until_over(void *unused)
{
	on_mutex_lock(&mutex);
	while (!over)
		on_cond_wait(&cond, &mutex);
	on_mutex_unlock(&mutex);
	return unused;
}

/* There is another thread, or a library might do without what a mutex is for. */
static double mutex_ns(uint64_t times)
{
	static on_mutex own;
	static bool initialized;
	on_thread other;

	if (!initialized)
		on_mutex_init(&own);
	initialized = true;
	over = false;
	create(&other, wait_until_over);
	on_yield();
	uint64_t begin = clock_ns();
	for (uint64_t i = 0; i < times; i++) {
		on_mutex_lock(&own);
		on_mutex_unlock(&own);
	}
	double ns = since(begin, times);
	on_mutex_lock(&mutex);
	over = true;
	on_cond_signal(&cond);
	on_mutex_unlock(&mutex);
	on_join(&other);
	return ns;
}

static void play(unsigned int own)
{
	on_mutex_lock(&mutex);
	for (uint64_t i = 0; i < wanted; i++) {
		while (iteration != own)
			on_cond_wait(&cond, &mutex);
		iteration = !own;
		on_cond_signal(&cond);
	}
	on_mutex_unlock(&mutex);
}

static void *play_along(void *unused)
{
	play(1);
	return unused;
}

/* For each hand-over: a signal, a wait, a switch. */
static double ping_pong_ns(uint64_t times)
{
	on_thread partner;

	iteration = 0;
	wanted = times;
	create(&partner, play_along);
	uint64_t begin = clock_ns();
	play(0);
	on_join(&partner);
	return since(begin, 2 * times);
}

/* `tek bench uthread` knows the names. */
static const struct {
	const char *name;
	double (*ns)(uint64_t times);
} calls[] = {
	{"yield", yield_ns},
	{"create and join", create_ns},
	{"mutex pair", mutex_ns},
	{"cond ping-pong", ping_pong_ns},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* So many that a batch takes about 2 ms: mostly over before another thread gets the CPU. */
static uint64_t batch_size(double (*ns)(uint64_t times))
{
	uint64_t times = 16;
	double each;

	while ((each = ns(times)) * (double)times < 0.5 * NS_PER_MS)
		times *= 2;
	each = ns(times); /* once more, warm */
	return (uint64_t)(2 * NS_PER_MS / each) + 1;
}

static void *report_kernel_thread(void *result)
{
	*(long *)result = syscall(SYS_gettid);
	return NULL;
}

/* Whether another thread is run by the kernel thread that runs this one. */
static bool is_user_level(void)
{
	on_thread thread;
	long other = 0;

	if (on_create(&thread, report_kernel_thread, &other))
		errx(EXIT_FAILURE, "cannot create a thread");
	on_join(&thread);
	return other == syscall(SYS_gettid);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : DEFAULT_ROUNDS;
	bool unpinned = argc == 3 && !strcmp(argv[2], "--unpinned");
	uint64_t size[CALLS];

	if (argc > 3 || (argc == 3 && !unpinned) || rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "Usage: %s [ROUNDS [--unpinned]]\nROUNDS: 1 to %d (default %d)\n",
			argv[0], MAX_ROUNDS, DEFAULT_ROUNDS);
		return 2;
	}
	alarm(LIMIT_S); /* it must end by itself, however busy the CPU is */
	if (!unpinned)
		pin_to_last_cpu(NULL);
	double *ns = (double *)calloc(CALLS * (size_t)rounds, sizeof(*ns));
	if (!ns)
		err(EXIT_FAILURE, "no memory");
	on_start();
	on_mutex_init(&mutex);
	on_cond_init(&cond);
	for (unsigned int i = 0; i < CALLS; i++)
		size[i] = batch_size(calls[i].ns);
	for (int round = 0; round < rounds; round++)
		for (unsigned int i = 0; i < CALLS; i++)
			ns[i * (unsigned int)rounds + (unsigned int)round] = calls[i].ns(size[i]);
	printf("{\"on\":\"%s\",\"user_level\":%s,\"calls\":[", ON_NAME,
	       is_user_level() ? "true" : "false");
	for (unsigned int i = 0; i < CALLS; i++) {
		printf("%s{\"name\":\"%s\",\"ns\":[", i ? "," : "", calls[i].name);
		for (int round = 0; round < rounds; round++)
			printf("%s%.3f", round ? "," : "",
			       ns[i * (unsigned int)rounds + (unsigned int)round]);
		printf("]}");
	}
	printf("]}\n");
	free(ns);
	return EXIT_SUCCESS;
}
