/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fair.h"

#include "../response/clock.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The mix: as many long jobs as there are threads, all there from the beginning, and short ones
 * that come one after the other, at random moments, while the long ones last.  Each has a thread of
 * its own, which sleeps until it comes: so when it comes is the same under every scheduler.
 */
#define BEGIN_MS 30 /* until all threads are there */
#define LONG_MS 100
#define SHORT_US 1000
#define SHORT_FOR_EACH_LONG 20

struct job {
	pthread_t thread;
	uint64_t iterations;
	uint64_t due_ns; /* when it comes */
	uint64_t ended_ns;
};

static void *do_job(void *argument)
{
	struct job *self = argument;
	sleep_until(self->due_ns);
	work(self->iterations);
	self->ended_ns = clock_ns();
	return NULL;
}

static void plan(struct job *jobs, unsigned int long_jobs, unsigned int all, uint64_t seed)
{
	unsigned int state = (unsigned int)seed;
	uint64_t time_ns = (uint64_t)long_jobs * LONG_MS * NS_PER_MS;
	uint64_t begin_ns = clock_ns() + BEGIN_MS * NS_PER_MS;

	for (unsigned int i = 0; i < all; i++) {
		jobs[i].due_ns = begin_ns;
		jobs[i].iterations = work_per_ms * LONG_MS;
		if (i < long_jobs)
			continue;
		uint64_t slice = time_ns / (all - long_jobs); /* one comes in each */
		jobs[i].due_ns += (i - long_jobs) * slice + (uint64_t)rand_r(&state) % slice;
		jobs[i].iterations = work_per_ms * SHORT_US / 1000;
	}
}

void fair_mixed(const struct fair_options *options)
{
	unsigned int all = options->threads * (1 + SHORT_FOR_EACH_LONG);
	struct job *jobs = calloc(all, sizeof(*jobs));
	double sum_us = 0, short_us = 0;

	if (!jobs)
		err(EXIT_FAILURE, "no memory");
	plan(jobs, options->threads, all, options->seed);
	for (unsigned int i = 0; i < all; i++)
		jobs[i].thread = start_thread(do_job, &jobs[i]);
	for (unsigned int i = 0; i < all; i++) {
		must(pthread_join(jobs[i].thread, NULL), "cannot join a thread");
		double us = (double)(jobs[i].ended_ns - jobs[i].due_ns) / NS_PER_US;
		sum_us += us;
		short_us += i < options->threads ? 0 : us;
	}
	printf("\"jobs\":%u,\"mean_us\":%.1f,\"short_mean_us\":%.1f", all, sum_us / all,
	       short_us / (all - options->threads));
	free(jobs);
}
