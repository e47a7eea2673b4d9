/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fair shares|interactive|mixed|priorities [--threads N] [--ms N] [--seed N] - how a scheduler
 * treats threads.  A plain program of POSIX threads: the scheduler is that of the library that is
 * preloaded, or the kernel's.  Prints one line of JSON.
 */
#include "fair.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 120

uint64_t work_per_ms;

static const struct {
	const char *name;
	fair_fn *measure;
} cases[] = {
	{"shares", fair_shares},
	{"interactive", fair_interactive},
	{"mixed", fair_mixed},
	{"priorities", fair_priorities},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

void must(int error, const char *what)
{
	errno = error;
	if (error)
		err(EXIT_FAILURE, "%s", what);
}

pthread_t start_thread(void *(*routine)(void *), void *argument)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, routine, argument), "cannot create a thread");
	return thread;
}

static struct fair_options read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'},
		{"ms", required_argument, NULL, 'm'},
		{"seed", required_argument, NULL, 's'},
		{0},
	};
	struct fair_options options = {.threads = 5, .run_ns = 2 * NS_PER_S, .seed = 7};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 't')
			options.threads = (unsigned int)number("threads", optarg, 1, 1000);
		else if (found == 'm')
			options.run_ns = number("ms", optarg, 10, 60000) * NS_PER_MS;
		else if (found == 's')
			options.seed = number("seed", optarg, 0, UINT32_MAX);
		else
			exit(2);
	}
	if (optind + 1 != argc)
		errx(2, "usage: %s shares|interactive|mixed|priorities [OPTION]...", argv[0]);
	return options;
}

int main(int argc, char **argv)
{
	struct fair_options options = read_options(argc, argv);
	unsigned int chosen = 0;

	while (chosen < CASES && strcmp(cases[chosen].name, argv[optind]))
		chosen++;
	if (chosen == CASES)
		errx(2, "'%s' is none of shares, interactive, mixed, priorities", argv[optind]);
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
	work_per_ms = calibrate();
	printf("{\"case\":\"%s\",\"threads\":%u,", cases[chosen].name, options.threads);
	cases[chosen].measure(&options);
	printf("}\n");
	return EXIT_SUCCESS;
}
