/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * load - a program that has nothing to do with the appliance and keeps the CPUs busy: CPU-bound
 * threads, and many that are idle but for a little work every two seconds.
 *
 * It prints a line of JSON when its threads are there, begins at the line `go` on standard input
 * and ends at `stop`, or at the end of standard input; then it prints what the
 * threads had.  With `go FROM TO`, CLOCK_MONOTONIC in ns, they run until TO and what they had
 * between the two is reported.
 */
#include "threads.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
	"Usage: load [options]\n"
	"Keeps the CPUs busy from the line `go` on standard input to the line `stop`.\n"
	"\n"
	"  --hogs N                CPU-bound threads (default 5)\n"
	"  --idle N                threads that are idle but for 20 us every 2 s (default 0)\n"
	"  --pin                   the first CPU-bound thread on the first CPU, and so on\n"
	"  --iterations-per-ms N   speed of this CPU, as `appliance --calibrate` printed it\n"
	"  --limit S               end after S seconds in any case (default 120)\n"
	"  --help                  this text\n";

static struct load parse(int argc, char **argv)
{
	enum { HOGS, IDLE, PIN, SPEED, LIMIT, HELP };
	static const struct option table[] = {
		[HOGS] = {"hogs", required_argument, NULL, 0},
		[IDLE] = {"idle", required_argument, NULL, 0},
		[PIN] = {"pin", no_argument, NULL, 0},
		[SPEED] = {"iterations-per-ms", required_argument, NULL, 0},
		[LIMIT] = {"limit", required_argument, NULL, 0},
		[HELP] = {"help", no_argument, NULL, 0},
		{NULL, 0, NULL, 0},
	};
	struct load load = {.hogs = 5};
	unsigned limit_s = 120;
	int index, c;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c)
			exit(2);
		const char *name = table[index].name;
		switch (index) {
		case HOGS:
			load.hogs = (unsigned)number(name, optarg, 0, 1000);
			break;
		case IDLE:
			load.idle = (unsigned)number(name, optarg, 0, 10000);
			break;
		case PIN:
			load.pin = true;
			break;
		case SPEED:
			load.iterations_per_ms = number(name, optarg, 1, 1000000000);
			break;
		case LIMIT:
			limit_s = (unsigned)number(name, optarg, 1, 86400);
			break;
		case HELP:
			fputs(help, stdout);
			exit(EXIT_SUCCESS);
		}
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s' (see --help)", argv[optind]);
	/* A program that can fill every CPU must end by itself. */
	alarm(limit_s);
	return load;
}

static void print_hog(const struct hog *hog, const char *comma)
{
	printf("%s{\"cpu\":%d,\"cpu_ns\":%" PRIu64 ",\"stall_ns\":%" PRIu64 "}", comma, hog->cpu,
	       hog->cpu_ns, hog->stall_ns);
}

static void print_result(const struct load *load)
{
	printf("{\"hogs\":[");
	for (unsigned i = 0; i < load->hogs; i++)
		print_hog(&hogs[i], i ? "," : "");
	printf("],\"idle_late_ns\":%" PRIu64 "}\n", idle_late_ns());
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct load load = parse(argc, argv);
	char line[80];
	uint64_t from_ns = 0, to_ns = UINT64_MAX;

	if (!load.iterations_per_ms)
		load.iterations_per_ms = calibrate();
	load_start(&load);
	printf("{\"hogs\":%u,\"idle\":%u}\n", load.hogs, load.idle);
	fflush(stdout);

	if (!fgets(line, sizeof(line), stdin))
		return EXIT_SUCCESS;
	if (strcmp(line, "go\n") && sscanf(line, "go %" SCNu64 " %" SCNu64, &from_ns, &to_ns) != 2)
		errx(2, "expected the line `go` or `go FROM TO` on standard input");
	load_go(from_ns, to_ns);
	if (to_ns == UINT64_MAX) {
		/* `stop`, or the end of standard input. */
		if (!fgets(line, sizeof(line), stdin))
			return EXIT_SUCCESS;
		load_stop();
	}
	load_join();
	print_result(&load);
	return EXIT_SUCCESS;
}
