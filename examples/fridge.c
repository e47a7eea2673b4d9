/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fridge [SECONDS [BUSY]] - an ordinary pthread program that does not use TEK.
 *
 * A finger touches the screen some ten times a second. The thread `touch` reads the touch and wakes
 * the thread `ui-draw`, which draws for 5 ms. A gas sensor is read meanwhile, and BUSY threads for
 * each CPU compute (default: 5). After SECONDS (default: 3) it ends and prints how long it took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static atomic_bool over;
static sem_t touched, drawn;

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000 * MS + now.tv_nsec;
}

static void sleep_until(int64_t due_ns)
{
	struct timespec due = {
		.tv_sec = (time_t)(due_ns / (1000 * MS)),
		.tv_nsec = (long)(due_ns % (1000 * MS)),
	};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void compute(int64_t ns)
{
	int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static void *touch(void *seconds)
{
	int64_t now = now_ns(CLOCK_MONOTONIC), end = now + *(long *)seconds * 1000 * MS;
	int64_t count = 0, sum = 0, longest = 0;
	for (; now < end; count++) {
		int64_t due = now + (20 + random() % 160) * MS; /* irregular, as fingers are */
		sleep_until(due);
		sem_post(&touched);
		sem_wait(&drawn);
		now = now_ns(CLOCK_MONOTONIC);
		int64_t took = now - due;
		sum += took;
		longest = took > longest ? took : longest;
	}
	printf("%d touches; touch to picture: %.1f ms on average, %.1f ms at most\n", (int)count,
	       (double)sum / (double)(count * MS), (double)longest / (double)MS);
	return NULL;
}

static void *draw(void *unused)
{
	for (;;) {
		sem_wait(&touched);
		compute(5 * MS);
		sem_post(&drawn);
	}
	return unused;
}

static void *gas_watch(void *unused)
{
	for (int64_t due = now_ns(CLOCK_MONOTONIC); !over; sleep_until(due += 50 * MS))
		compute(MS / 10);
	return unused;
}

static void *be_busy(void *unused)
{
	while (!over)
		compute(MS);
	return unused;
}

static pthread_t start(const char *name, void *(*run)(void *), void *argument)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run, argument);

	if (error) {
		fprintf(stderr, "fridge: no thread: %s\n", strerror(error));
		exit(EXIT_FAILURE);
	}
	pthread_setname_np(thread, name);
	return thread;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? strtol(argv[1], NULL, 10) : 3;
	long busy = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
	if (seconds < 1 || seconds > 3600 || busy < 0 || busy > 100 || argc > 3) {
		fprintf(stderr, "usage: fridge [SECONDS [BUSY]]\n");
		return 2;
	}
	sem_init(&touched, 0, 0);
	sem_init(&drawn, 0, 0);
	start("ui-draw", draw, NULL);
	start("gas", gas_watch, NULL);
	for (long i = 0; i < busy * sysconf(_SC_NPROCESSORS_ONLN); i++)
		start(i == 0 ? "net-sync" : "media", be_busy, NULL);
	pthread_t finger = start("touch", touch, &seconds);
	pthread_join(finger, NULL);
	over = true;
	return 0;
}
