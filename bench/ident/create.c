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
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_BATCHES 250
#define MAX_BATCHES 10000
#define THREADS 20 /* of a batch, one after the other */

static void *do_nothing(void *unused)
{
	return unused;
}

static void create_and_join(void)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, do_nothing, NULL);
	if (!errno)
		errno = pthread_join(thread, NULL);
	if (errno)
		err(EXIT_FAILURE, "cannot create and join a thread");
}

static double batch_ns(void)
{
	uint64_t begin = clock_ns();
	for (unsigned int i = 0; i < THREADS; i++)
		create_and_join();
	return (double)(clock_ns() - begin) / THREADS;
}

int main(int argc, char **argv)
{
	bool unpinned = argc > 1 && strcmp(argv[1], "--unpinned") == 0;
	int at = 1 + unpinned;
	int batches = argc > at ? atoi(argv[at]) : DEFAULT_BATCHES;

	if (argc > at + 1 || batches < 1 || batches > MAX_BATCHES) {
		fprintf(stderr,
			"Usage: %s [--unpinned] [BATCHES]\n"
			"The time to create and join a thread, of so many batches (default %d), on "
			"one\n"
			"CPU unless --unpinned is given, as JSON.\n",
			argv[0], DEFAULT_BATCHES);
		return 2;
	}
	alarm(120); /* it must end by itself, however busy the CPU is */
	if (!unpinned)
		pin_to_last_cpu(NULL);
	batch_ns(); /* the first threads map their stacks */
	printf("{\"under_tek\":%s,\"ns\":[", dlsym(RTLD_DEFAULT, "tek_version") ? "true" : "false");
	for (int i = 0; i < batches; i++)
		printf("%s%.1f", i ? "," : "", batch_ns());
	printf("]}\n");
	return EXIT_SUCCESS;
}
