/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fit - how many sleeping threads fit into a process (tek-2020, Fig. 12)?  An ordinary pthread
 * program with default attributes, built for 64 and for 32 bits.  It tries so many creations,
 * each thread does a little and sleeps, and none ends before all were tried.
 * Prints one line of JSON.
 */
#include "maps.h"
#include "program.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_THREADS 30000

struct options {
	unsigned int threads;
	bool allocate; /* memory, once in each thread: malloc's arenas need room too */
	bool lock;     /* all memory, now and from now on */
};

/* Creations tried, at which the failures so far are reported. */
static const unsigned int milestones[] = {100,  200,  300,  500,   1000,  2000,
					  3000, 5000, 7500, 10000, 15000, 20000};
#define MILESTONES (sizeof(milestones) / sizeof(milestones[0]))

static struct options options;
static pthread_t threads[MAX_THREADS];
static sem_t running, leave;

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		;
}

static void *sleep_on(void *unused)
{
	void *memory = options.allocate ? malloc(100) : NULL;
	char name[32];

	if (options.allocate && !memory)
		errx(EXIT_FAILURE, "a thread has no memory");
	/* As much stack as most threads use at least. */
	snprintf(name, sizeof(name), "%p", unused);
	sem_post(&running);
	wait_for(&leave);
	free(memory);
	return unused;
}

static void usage(FILE *to, const char *name)
{
	fprintf(to,
		"Usage: %s [--malloc] [--lock] THREADS\n"
		"How many of so many threads (1 to %d) can be created, as JSON.\n"
		"--malloc  each allocates memory once\n"
		"--lock    all memory is locked: mlockall(MCL_CURRENT | MCL_FUTURE)\n",
		name, MAX_THREADS);
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"malloc", no_argument, NULL, 'm'},
		{"lock", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (found) {
		case 'm':
			options.allocate = true;
			break;
		case 'l':
			options.lock = true;
			break;
		case 'h':
		default:
			end_with(usage, argv, found == 'h');
		}
	int count = optind == argc - 1 ? atoi(argv[optind]) : 0;
	if (count < 1 || count > MAX_THREADS)
		end_with(usage, argv, false);
	options.threads = (unsigned int)count;
}

int main(int argc, char **argv)
{
	unsigned int count = 0, first_failure = 0, milestone = 0;
	int error = 0;

	parse(argc, argv);
	alarm(120); /* it must end by itself */
	sem_init(&running, 0, 0);
	sem_init(&leave, 0, 0);
	if (options.lock && mlockall(MCL_CURRENT | MCL_FUTURE))
		err(EXIT_FAILURE, "cannot lock memory (it needs CAP_IPC_LOCK or `ulimit -l`)");

	printf("{\"bits\":%zu,\"under_tek\":%s,\"failures\":[", sizeof(void *) * 8, under_tek());
	for (unsigned int tried = 1; tried <= options.threads; tried++) {
		int failed = pthread_create(&threads[count], NULL, sleep_on, NULL);
		if (failed && !error) {
			error = failed;
			first_failure = tried;
		}
		if (!failed) {
			/* It has its memory before the next one asks for some. */
			wait_for(&running);
			count++;
		}
		if (milestone < MILESTONES && tried == milestones[milestone]) {
			printf("%s{\"tried\":%u,\"failed\":%u}", milestone ? "," : "", tried,
			       tried - count);
			milestone++;
		}
	}
	printf("],\"tried\":%u,\"running\":%u,\"first_failure\":%u,\"error\":\"%s\"",
	       options.threads, count, first_failure, error ? strerror(error) : "");
	printf(",\"vm\":%" PRIu64 ",\"resident\":%" PRIu64 ",\"locked\":%" PRIu64 "}\n",
	       status_bytes("VmSize"), resident_bytes(), status_bytes("VmLck"));
	for (unsigned int i = 0; i < count; i++)
		sem_post(&leave);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return EXIT_SUCCESS;
}
