/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spread - 273 threads that use very different amounts of stack, as those of an appliance do
 * (tek-2020, Figs. 3 and 11): how much memory is allocated for their stacks, how much used?
 * An ordinary pthread program with default attributes.  Prints one line of JSON.
 */
#include "churn.h"
#include "maps.h"
#include "program.h"
#include "worker.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_PERCENT 20 /* more would not fit a stack of 2 MiB */
#define MAX_DAYS 60
#define MAX_HOUR_MS 3600000 /* an hour as long as an hour */

struct options {
	double percent;
	uint64_t seed;
	unsigned int days; /* 0: all threads at once */
	double hour_ms;
};

static struct worker workers[WORKERS];

static void usage(FILE *to, const char *name)
{
	fprintf(to,
		"Usage: %s [--vary PERCENT] [--seed N] [--days N [--hour-ms MS]]\n"
		"What is allocated for the stacks of 273 threads, and what of it used, as JSON.\n"
		"--vary PERCENT  multiply what each kind uses by a random factor this much around "
		"1\n"
		"                (0 to %d, default 0)\n"
		"--seed N        of these factors (default 1)\n"
		"--days N        let threads come and go for so many days (2 to %d) instead of all "
		"at once\n"
		"--hour-ms MS    real time of an hour of them (0 to %d, default 1)\n",
		name, MAX_PERCENT, MAX_DAYS, MAX_HOUR_MS);
}

/* A number of at most `most`. Exits if it is none. */
static double number(char **argv, double least, double most)
{
	char *end;
	double value = strtod(optarg, &end);
	if (end == optarg || *end || !(value >= least && value <= most))
		end_with(usage, argv, false);
	return value;
}

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"vary", required_argument, NULL, 'v'}, {"seed", required_argument, NULL, 's'},
		{"days", required_argument, NULL, 'd'}, {"hour-ms", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},       {0},
	};
	struct options options = {.seed = 1, .hour_ms = 1};
	int found;

	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (found) {
		case 'v':
			options.percent = number(argv, 0, MAX_PERCENT);
			break;
		case 's':
			options.seed = (uint64_t)number(argv, 0, 1e9);
			break;
		case 'd':
			options.days = (unsigned int)number(argv, 2, MAX_DAYS);
			break;
		case 'm':
			options.hour_ms = number(argv, 0, MAX_HOUR_MS);
			break;
		case 'h':
		default:
			end_with(usage, argv, found == 'h');
		}
	if (optind < argc)
		end_with(usage, argv, false);
	return options;
}

static void print_all_at_once(void)
{
	struct range blocks[WORKERS];
	uint64_t before = status_bytes("VmSize");

	workers_start(workers);
	uint64_t added = status_bytes("VmSize") - before;
	for (unsigned int i = 0; i < WORKERS; i++)
		blocks[i] = (struct range){.low = workers[i].low, .end = workers[i].end};
	maps_measure(blocks, WORKERS);
	printf("\"vm_added\":%" PRIu64 ",\"stacks\":[", added);
	for (unsigned int i = 0; i < WORKERS; i++) {
		size_t allocated = workers[i].end - workers[i].low;
		printf("%s{\"allocated\":%zu,\"used\":%zu}", i ? "," : "", allocated,
		       workers[i].used_bytes);
	}
	printf("]");
	for (unsigned int i = 0; i < WORKERS; i++)
		if (blocks[i].mapped != blocks[i].end - blocks[i].low)
			errx(EXIT_FAILURE, "only %zu bytes of a block of %zu are mapped",
			     blocks[i].mapped, (size_t)(blocks[i].end - blocks[i].low));
	for (unsigned int i = 0; i < WORKERS; i++)
		worker_end(&workers[i]);
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);

	/* It must end by itself, however busy the CPU is. */
	alarm(100 + (unsigned int)(options.days * 24 * options.hour_ms / 1000 * 1.5));
	workers_prepare(workers);
	workers_vary(options.percent / 100, options.seed);
	printf("{\"under_tek\":%s,", under_tek());
	if (options.days) {
		printf("\"days\":");
		churn(workers, options.days, (unsigned int)(options.hour_ms * 1000));
	} else {
		print_all_at_once();
	}
	printf("}\n");
	return EXIT_SUCCESS;
}
