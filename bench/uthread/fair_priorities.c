/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fair.h"

#include "../response/clock.h"

#include <err.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define PRIORITIES_MAX 64

/* A thread of this priority (0: the lowest) waits until another thread wakes it. */
struct member {
	pthread_t thread;
	sem_t wake;
	atomic_bool ready; /* it was woken, and has not run since */
	unsigned int seed;
};

static struct member members[PRIORITIES_MAX];
static unsigned int priorities;
static atomic_bool over;
static atomic_ulong checks, wake_ups, violations;

/*
 * By the running thread: is a thread of higher priority ready?  At the end some have ended
 * meanwhile.
 */
static void examine(unsigned int own)
{
	if (over)
		return;
	checks++;
	for (unsigned int i = own + 1; i < priorities; i++)
		if (members[i].ready)
			violations++;
}

static void wake(unsigned int number)
{
	if (number == 0 || atomic_exchange(&members[number].ready, true))
		return;
	wake_ups++;
	sem_post(&members[number].wake);
}

/*
 * A short turn: work, and now and then a thread is woken, of lower or of higher priority.  Each
 * turn leads to one more at most, on average, so that those of lowest priority come to run, too.
 */
static void take_round(unsigned int own)
{
	struct member *self = &members[own];

	for (unsigned int i = 0; i < 2; i++) {
		work(work_per_ms / 100);
		examine(own);
		unsigned int number = (unsigned int)rand_r(&self->seed) % (2 * priorities);
		if (number < priorities)
			wake(number);
		examine(own);
	}
}

static void *run(void *argument)
{
	struct member *self = argument;
	unsigned int own = (unsigned int)(self - members);

	while (!over) {
		if (own > 0) {
			while (sem_wait(&self->wake))
				;
			self->ready = false;
		}
		take_round(own);
	}
	return NULL;
}

static void create(unsigned int number)
{
	struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_FIFO) +
						      (int)number};
	pthread_attr_t attributes;

	must(pthread_attr_init(&attributes), "attributes");
	must(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), "attributes");
	must(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO), "attributes");
	must(pthread_attr_setschedparam(&attributes, &param), "attributes");
	must(pthread_create(&members[number].thread, &attributes, run, &members[number]),
	     "cannot create a thread of SCHED_FIFO");
	pthread_attr_destroy(&attributes);
}

/* The first thread goes before all, so that it can end this. */
static void go_before_all(void)
{
	struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_FIFO) +
						      (int)priorities};
	must(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param), "cannot be SCHED_FIFO");
}

void fair_priorities(const struct fair_options *options)
{
	priorities = options->threads < PRIORITIES_MAX ? options->threads : PRIORITIES_MAX;
	go_before_all();
	for (unsigned int i = 0; i < priorities; i++) {
		members[i].seed = (unsigned int)options->seed + i;
		if (sem_init(&members[i].wake, 0, 0))
			err(EXIT_FAILURE, "semaphore");
		create(i);
	}
	sleep_until(clock_ns() + options->run_ns);
	over = true;
	for (unsigned int i = 0; i < priorities; i++) {
		sem_post(&members[i].wake);
		must(pthread_join(members[i].thread, NULL), "cannot join a thread");
	}
	printf("\"checks\":%lu,\"wake_ups\":%lu,\"violations\":%lu", (unsigned long)checks,
	       (unsigned long)wake_ups, (unsigned long)violations);
}
