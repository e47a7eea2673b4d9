/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * churn WAY COUNT... - threads that come and end in one of several ways.
 *
 * For each COUNT: lets threads start and end until it has been that many in all, starts
 * HELD threads more, prints a line and waits for a line.  Then the held ones end too, and
 * it prints a line and waits for a line again.  With a COUNT of 0 it never stops.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

enum { HELD = 100, TOGETHER = 10, STACK_BYTES = 64 * 1024 };

static sem_t held, ended;

/* The start routines: each waits first if its argument is not NULL. */

static void wait_if(void *hold)
{
	if (hold)
		while (sem_wait(&held))
			;
}

static void *returns(void *hold)
{
	wait_if(hold);
	return NULL;
}

static void *exits(void *hold)
{
	wait_if(hold);
	pthread_exit(NULL);
}

static void *is_cancelled(void *hold)
{
	wait_if(hold);
	for (;;)
		pause();
	return NULL;
}

static void *leaves_by_system_call(void *hold)
{
	wait_if(hold);
	syscall(SYS_exit, 0);
	return NULL;
}

static void *is_detached(void *hold)
{
	wait_if(hold);
	sem_post(&ended);
	return NULL;
}

static int returns_c11(void *hold)
{
	wait_if(hold);
	return 0;
}

static const struct way {
	const char *name;
	void *(*routine)(void *); /* NULL: thrd_create() */
	bool cancel, detach;
} ways[] = {
	{"returned", returns, false, false},
	{"pthread_exit", exits, false, false},
	{"cancelled", is_cancelled, true, false},
	{"detached", is_detached, false, true},
	{"sys_exit", leaves_by_system_call, false, false},
	{"thrd_create", NULL, false, false},
};

union handle {
	pthread_t thread;
	thrd_t c11;
};

static void start(const struct way *way, union handle *handle, bool hold)
{
	void *argument = hold ? &held : NULL;
	pthread_attr_t attr;
	bool started;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (way->routine)
		started = pthread_create(&handle->thread, &attr, way->routine, argument) == 0;
	else
		started = thrd_create(&handle->c11, returns_c11, argument) == thrd_success;
	pthread_attr_destroy(&attr);
	if (!started)
		abort();
}

static void finish(const struct way *way, union handle handle)
{
	if (way->detach) {
		pthread_detach(handle.thread);
		while (sem_wait(&ended))
			;
		return;
	}
	if (way->cancel)
		pthread_cancel(handle.thread);
	if (!way->routine)
		thrd_join(handle.c11, NULL);
	else if (pthread_join(handle.thread, NULL))
		abort();
}

static void some_threads(const struct way *way, unsigned int count)
{
	union handle handles[TOGETHER];
	for (unsigned int i = 0; i < count; i++)
		start(way, &handles[i], false);
	for (unsigned int i = 0; i < count; i++)
		finish(way, handles[i]);
}

static void wait_for_line(const char *print)
{
	int c;
	puts(print);
	fflush(stdout);
	while ((c = getchar()) != '\n')
		if (c == EOF)
			exit(EXIT_FAILURE);
}

static void stop_at(const struct way *way)
{
	union handle handles[HELD];
	for (unsigned int i = 0; i < HELD; i++)
		start(way, &handles[i], true);
	wait_for_line("held");
	for (unsigned int i = 0; i < HELD; i++)
		sem_post(&held);
	for (unsigned int i = 0; i < HELD; i++)
		finish(way, handles[i]);
	wait_for_line("ended");
}

int main(int argc, char **argv)
{
	const struct way *way = ways;
	unsigned long made = 0;

	if (argc < 3)
		return 2;
	while (strcmp(way->name, argv[1]) != 0)
		if (++way == ways + sizeof(ways) / sizeof(ways[0]))
			return 2;
	alarm(100);            /* it must end by itself */
	some_threads(ways, 1); /* whatever the way, the process has a table */
	sem_init(&held, 0, 0);
	sem_init(&ended, 0, 0);
	for (int i = 2; i < argc; i++) {
		unsigned long count = strtoul(argv[i], NULL, 10);
		for (; made < count || count == 0; made += TOGETHER)
			some_threads(way, TOGETHER);
		stop_at(way);
	}
	return EXIT_SUCCESS;
}
