// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread named touch waits for a mutex that a thread named logger holds, while it computes beside
// three busy threads on one CPU. The arguments: how often, and `exits`, `killed` or `stays` until
// standard input ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begun;
static volatile int is_over;
static _Atomic int is_held;

static void compute(int ms)
{
	struct timespec now;
	long long end = -1, ns;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		ns = now.tv_sec * 1000000000LL + now.tv_nsec;
		end = end < 0 ? ns + ms * 1000000LL : end;
	} while (ns < end);
}

static void *busy(void *argument)
{
	while (!is_over)
		compute(1);
	return argument;
}

__attribute__((noinline)) static void log_flush(void)
{
	pthread_mutex_lock(&queue_lock);
	is_held = 1;
	compute(5);
	pthread_mutex_unlock(&queue_lock); // released here
	is_held = 0;
}

static void *logger(void *times)
{
	pthread_setname_np(pthread_self(), "logger");
	for (int i = 0; i < *(int *)times; i++) {
		compute(3);
		pthread_barrier_wait(&begun);
		log_flush();
		pthread_barrier_wait(&begun);
	}
	return NULL;
}

__attribute__((noinline)) static void ui_touch(void)
{
	pthread_mutex_lock(&queue_lock); // waits here
	pthread_mutex_unlock(&queue_lock);
}

static void *touch(void *times)
{
	pthread_setname_np(pthread_self(), "touch");
	for (int i = 0; i < *(int *)times; i++) {
		pthread_barrier_wait(&begun);
		while (!is_held)
			usleep(1000);
		ui_touch();
		pthread_barrier_wait(&begun);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	int times = atoi(arguments[1]);
	const char *how = count > 2 ? arguments[2] : "exits";
	pthread_t threads[5];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_barrier_init(&begun, NULL, 2);
	pthread_create(&threads[0], NULL, logger, &times);
	pthread_create(&threads[1], NULL, touch, &times);
	for (int i = 2; i < 5; i++)
		pthread_create(&threads[i], NULL, busy, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	is_over = 1;
	for (int i = 2; i < 5; i++)
		pthread_join(threads[i], NULL);
	puts("ready");
	fflush(stdout);
	if (!strcmp(how, "killed"))
		kill(getpid(), SIGKILL);
	while (!strcmp(how, "stays") && getchar() != EOF)
		;
	return 0;
}
