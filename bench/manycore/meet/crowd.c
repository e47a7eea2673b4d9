/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "crowd.h"

#include "../../response/clock.h"
#include "../../response/number.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned int read_list(const char *option, char *text, unsigned int *list,
			      unsigned int least, unsigned int most)
{
	unsigned int count = 0;
	char *rest = NULL;

	for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		if (count == LISTED_MOST)
			errx(EXIT_FAILURE, "--%s: %d numbers at most", option, LISTED_MOST);
		list[count++] = (unsigned int)number(option, one, least, most);
	}
	return count;
}

/* 1, 2, 4... up to 4 x CPUs. */
static void usual_threads(struct crowd_options *options)
{
	const unsigned int most = 4 * (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);

	for (unsigned int n = 1;
	     n <= most && n <= CROWD_MOST && options->thread_counts < LISTED_MOST; n *= 2)
		options->threads[options->thread_counts++] = n;
}

void crowd_options(struct crowd_options *options, int argc, char **argv, const char *usage)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'},
		{"kinds", required_argument, NULL, 'k'},
		{"times", required_argument, NULL, 'n'},
		{"rounds", required_argument, NULL, 'r'},
		{"limit-ms", required_argument, NULL, 'l'},
		{"writes", required_argument, NULL, 'w'},
		{"pin", no_argument, NULL, 'p'},
		{"memory", required_argument, NULL, 'm'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 't')
			options->thread_counts = read_list("threads", optarg, options->threads, 1,
							   CROWD_MOST);
		else if (option == 'k')
			options->kinds = optarg;
		else if (option == 'n')
			options->times = number("times", optarg, 1, 1000000000);
		else if (option == 'r')
			options->rounds = number("rounds", optarg, 1, 99);
		else if (option == 'l')
			options->limit_ms = number("limit-ms", optarg, 1, 3600000);
		else if (option == 'w' && options->share_counts)
			options->share_counts = read_list("writes", optarg, options->shares, 0,
							  100);
		else if (option == 'p' && options->places)
			options->pins = true;
		else if (option == 'm' && options->places)
			options->memory = optarg;
		else
			break;
	}
	if (option != -1 || optind < argc) {
		fputs(usage, stderr);
		exit(EXIT_FAILURE);
	}
	if (!options->thread_counts)
		usual_threads(options);
}

bool crowd_wants(const struct crowd_options *options, const char *kind)
{
	const size_t length = strlen(kind);
	const char *at = options->kinds;

	for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, kind, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	return !options->kinds;
}

static atomic_uint ready;
static atomic_bool go;
static void (*routine)(unsigned int number);

static void *run(void *number)
{
	atomic_fetch_add(&ready, 1);
	while (!atomic_load(&go))
		sched_yield();
	routine((unsigned int)(uintptr_t)number);
	return NULL;
}

uint64_t crowd_run(unsigned int count, void (*one)(unsigned int number))
{
	static pthread_t threads[CROWD_MOST];

	routine = one;
	atomic_store(&ready, 0);
	atomic_store(&go, false);
	for (uintptr_t i = 0; i < count; i++) {
		errno = pthread_create(&threads[i], NULL, run, (void *)i);
		if (errno)
			err(EXIT_FAILURE, "cannot start thread %u", (unsigned int)i + 1);
	}
	while (atomic_load(&ready) < count)
		sched_yield();
	const uint64_t begin = clock_ns();
	atomic_store(&go, true);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return clock_ns() - begin;
}
