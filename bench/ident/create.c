/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * create - what does it cost to create a thread and to join it?  An ordinary pthread
 * program; built once as it is and once linked with libtek, and run with it preloaded.
 * Prints one line of JSON.
 */
#include "../response/clock.h"
#include "../response/pin.h"

#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_BATCHES 250
#define MAX_BATCHES 10000
#define THREADS 16 /* of a batch, one after the other: too few to know their kind well */
#define MAX_KINDS 64

typedef void *routine(void *);

/* Each returns something else, so that the compiler does not make one of all. */
#define ROUTINE(number) \
	static void *do_nothing_##number(void *pointer) \
	{ \
		return (char *)pointer + 0##number; \
	}
#define EIGHT(of, row) \
	of(row##0) of(row##1) of(row##2) of(row##3) of(row##4) of(row##5) of(row##6) of(row##7)
#define ALL(of) \
	EIGHT(of, 0) \
	EIGHT(of, 1) \
	EIGHT(of, 2) \
	EIGHT(of, 3) \
	EIGHT(of, 4) \
	EIGHT(of, 5) \
	EIGHT(of, 6) \
	EIGHT(of, 7)
ALL(ROUTINE)

#define ENTRY(number) do_nothing_##number,
static routine *const routines[MAX_KINDS] = {ALL(ENTRY)};

static void create_and_join(routine *do_nothing)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, do_nothing, NULL);
	if (!errno)
		errno = pthread_join(thread, NULL);
	if (errno)
		err(EXIT_FAILURE, "cannot create and join a thread");
}

static double batch_ns(routine *do_nothing)
{
	uint64_t begin = clock_ns();
	for (unsigned int i = 0; i < THREADS; i++)
		create_and_join(do_nothing);
	return (double)(clock_ns() - begin) / THREADS;
}

static void usage(FILE *to, const char *name)
{
	fprintf(to,
		"Usage: %s [--unpinned] [--kinds N] [BATCHES]\n"
		"The time to create and join a thread, of so many batches (default %d), on one\n"
		"CPU unless --unpinned is given, as JSON.\n"
		"--kinds N  so many start routines (1 to %d, default 1), batch by batch in turns\n",
		name, DEFAULT_BATCHES, MAX_KINDS);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"unpinned", no_argument, NULL, 'u'},
		{"kinds", required_argument, NULL, 'k'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool unpinned = false;
	int kinds = 1, found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 'h') {
			usage(stdout, argv[0]);
			return EXIT_SUCCESS;
		}
		unpinned |= found == 'u';
		kinds = found == 'k' ? atoi(optarg) : found == 'u' ? kinds : 0;
	}
	int batches = optind < argc ? atoi(argv[optind]) : DEFAULT_BATCHES;
	if (argc > optind + 1 || batches < 1 || batches > MAX_BATCHES || kinds < 1 ||
	    kinds > MAX_KINDS) {
		usage(stderr, argv[0]);
		return 2;
	}
	alarm(120); /* it must end by itself, however busy the CPU is */
	if (!unpinned)
		pin_to_last_cpu(NULL);
	batch_ns(routines[0]); /* the first threads map their stacks */
	printf("{\"under_tek\":%s,\"ns\":[", dlsym(RTLD_DEFAULT, "tek_version") ? "true" : "false");
	for (int i = 0; i < batches; i++)
		printf("%s%.1f", i ? "," : "", batch_ns(routines[(i + 1) % kinds]));
	printf("]}\n");
	return EXIT_SUCCESS;
}
