/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "crew.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 100000
#define SIZE_MAX_WORK 1000000000000
#define LIMIT_S 600

struct crew crew = {.threads = 10};

struct member {
	pthread_t thread;
	void (*work)(unsigned int number);
	uint64_t ended_ns;
	long kernel_thread; /* that began to run it */
};

static struct member *members;
static uint64_t begin_ns, end_ns;
static struct rusage before, after;

void crew_must(int error, const char *what)
{
	errno = error;
	if (error)
		err(EXIT_FAILURE, "%s", what);
}

void crew_begin(int argc, char **argv, unsigned int least_threads, uint64_t least_size)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'},
		{"size", required_argument, NULL, 's'},
		{0},
	};
	int found;

	crew.size = least_size;
	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 't')
			crew.threads = (unsigned int)number("threads", optarg, least_threads,
							    THREADS_MAX);
		else if (found == 's')
			crew.size = number("size", optarg, least_size, SIZE_MAX_WORK);
		else
			exit(2);
	}
	if (optind < argc)
		errx(2, "usage: %s [--threads N] [--size N]", argv[0]);
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
}

struct crew_share crew_share(unsigned int number)
{
	return (struct crew_share){
		.begin = crew.size * number / crew.threads,
		.end = crew.size * (number + 1) / crew.threads,
	};
}

static void *run(void *argument)
{
	struct member *self = argument;

	self->kernel_thread = syscall(SYS_gettid);
	self->work((unsigned int)(self - members));
	self->ended_ns = clock_ns();
	return NULL;
}

void crew_run(void (*work)(unsigned int number))
{
	members = calloc(crew.threads, sizeof(*members));
	if (!members)
		err(EXIT_FAILURE, "no memory");
	getrusage(RUSAGE_SELF, &before);
	begin_ns = clock_ns();
	for (unsigned int i = 0; i < crew.threads; i++) {
		members[i].work = work;
		crew_must(pthread_create(&members[i].thread, NULL, run, &members[i]),
			  "cannot create a thread");
	}
	for (unsigned int i = 0; i < crew.threads; i++)
		crew_must(pthread_join(members[i].thread, NULL), "cannot join a thread");
	end_ns = clock_ns();
	getrusage(RUSAGE_SELF, &after);
}

static int compare(const void *one, const void *other)
{
	const struct member *a = one, *b = other;
	return (a->kernel_thread > b->kernel_thread) - (a->kernel_thread < b->kernel_thread);
}

static unsigned int count_kernel_threads(void)
{
	unsigned int count = 1;

	qsort(members, crew.threads, sizeof(*members), compare);
	for (unsigned int i = 1; i < crew.threads; i++)
		count += members[i].kernel_thread != members[i - 1].kernel_thread;
	return count;
}

static uint64_t cpu_ns(const struct rusage *usage)
{
	uint64_t seconds = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec);
	uint64_t us = (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
	return seconds * NS_PER_S + us * NS_PER_US;
}

int crew_end(const char *program, uint64_t result, uint64_t expected)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	for (unsigned int i = 0; i < crew.threads; i++) {
		uint64_t response_ns = members[i].ended_ns - begin_ns;
		first_ns = response_ns < first_ns ? response_ns : first_ns;
		last_ns = response_ns > last_ns ? response_ns : last_ns;
	}
	printf("{\"program\":\"%s\",\"threads\":%u,\"size\":%" PRIu64 ",\"result\":%" PRIu64
	       ",\"expected\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"first_ns\":%" PRIu64
	       ",\"last_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
	       ",\"voluntary\":%ld,\"involuntary\":%ld,\"kernel_threads\":%u}\n",
	       program, crew.threads, crew.size, result, expected, end_ns - begin_ns, first_ns,
	       last_ns, cpu_ns(&after) - cpu_ns(&before), after.ru_nvcsw - before.ru_nvcsw,
	       after.ru_nivcsw - before.ru_nivcsw, count_kernel_threads());
	free(members);
	if (result != expected)
		warnx("%s: the result is wrong", program);
	return result == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
