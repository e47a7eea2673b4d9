/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler.h"

#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SAMPLES 60000

struct sample {
	uint64_t at_ns;
	uint64_t dirty; /* pages, those that are being written back among them */
	uint64_t threshold;
	uint64_t free;
};

static struct sample *samples;
static unsigned count;
static pthread_t thread;
static bool is_there;
static pthread_barrier_t go;
static uint64_t period_ns, from_ns, to_ns;
static int priority, vmstat;

/* The number behind a name that begins a line. */
static uint64_t value_of(const char *text, const char *name)
{
	size_t length = strlen(name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, length) && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	}
	return 0;
}

static void examine(struct sample *sample)
{
	static char text[16384];
	ssize_t length = pread(vmstat, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = '\0';
	sample->dirty = value_of(text, "nr_dirty") + value_of(text, "nr_writeback");
	sample->threshold = value_of(text, "nr_dirty_threshold");
	sample->free = value_of(text, "nr_free_pages");
}

static void *run(void *unused)
{
	be_realtime(priority);
	pthread_barrier_wait(&go);
	for (uint64_t due_ns = from_ns; due_ns < to_ns && count < MAX_SAMPLES; count++) {
		sleep_until(due_ns);
		examine(&samples[count]);
		samples[count].at_ns = clock_ns() - from_ns;
		due_ns += period_ns;
	}
	return unused;
}

void sampler_start(uint64_t wanted_ns, int wanted_priority)
{
	period_ns = wanted_ns;
	priority = wanted_priority;
	samples = calloc(MAX_SAMPLES, sizeof(*samples));
	vmstat = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (!samples || vmstat < 0)
		err(EXIT_FAILURE, "cannot look at the memory");
	pthread_barrier_init(&go, NULL, 2);
	errno = pthread_create(&thread, NULL, run, NULL);
	if (errno)
		err(EXIT_FAILURE, "cannot start a thread");
	is_there = true;
}

void sampler_go(uint64_t from, uint64_t to)
{
	from_ns = from;
	to_ns = to;
	if (is_there)
		pthread_barrier_wait(&go);
}

void sampler_join(void)
{
	if (is_there)
		pthread_join(thread, NULL);
}

void sampler_print(void)
{
	printf("\"samples\":[");
	for (unsigned i = 0; i < count; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", i ? "," : "",
		       samples[i].at_ns, samples[i].dirty, samples[i].threshold, samples[i].free);
	printf("]");
}
