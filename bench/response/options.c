/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "options.h"

#include "number.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
	"Usage: %s [options]\n"
	"A fridge: answers scripted touch events while its other threads use every CPU,\n"
	"and prints one line of JSON when its threads run and one when it is done.\n"
	"\n"
	"  --events N              touch events to answer (default 25)\n"
	"  --hogs N                CPU-bound threads in each of the 4 groups (default 5)\n"
	"  --no-load               the same as --hogs 0\n"
	"  --seed N                of the script of touch events (default 1)\n"
	"  --observe S             no events: watch the sensors for S seconds, with the\n"
	"                          CPU-bound threads running in the middle half\n"
	"  --no-switch-cost        leave the time of a switch out, for which others must be idle\n"
	"  --iterations-per-ms N   speed of this CPU, as --calibrate printed it\n"
	"  --calibrate             print the speed of this CPU and exit\n"
	"  --wait                  when the threads run, wait for a line `go` on standard input\n"
	"  --limit S               end after S seconds in any case (default 120)\n"
	"  --help                  this text\n";

struct options options_parse(int argc, char **argv)
{
	enum { EVENTS, HOGS, NO_LOAD, SEED, OBSERVE, NO_COST, SPEED, CALIBRATE, WAIT, LIMIT, HELP };
	static const struct option table[] = {
		[EVENTS] = {"events", required_argument, NULL, 0},
		[HOGS] = {"hogs", required_argument, NULL, 0},
		[NO_LOAD] = {"no-load", no_argument, NULL, 0},
		[SEED] = {"seed", required_argument, NULL, 0},
		[OBSERVE] = {"observe", required_argument, NULL, 0},
		[NO_COST] = {"no-switch-cost", no_argument, NULL, 0},
		[SPEED] = {"iterations-per-ms", required_argument, NULL, 0},
		[CALIBRATE] = {"calibrate", no_argument, NULL, 0},
		[WAIT] = {"wait", no_argument, NULL, 0},
		[LIMIT] = {"limit", required_argument, NULL, 0},
		[HELP] = {"help", no_argument, NULL, 0},
		{NULL, 0, NULL, 0},
	};
	struct options options = {.events = 25, .hogs = 5, .limit_s = 120, .seed = 1};
	int index, c;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c)
			exit(2);
		const char *name = table[index].name;
		switch (index) {
		case EVENTS:
			options.events = (unsigned)number(name, optarg, 1, 100000);
			break;
		case HOGS:
			options.hogs = (unsigned)number(name, optarg, 0, 50);
			break;
		case NO_LOAD:
			options.hogs = 0;
			break;
		case SEED:
			options.seed = number(name, optarg, 0, UINT64_MAX);
			break;
		case OBSERVE:
			options.observe_s = (unsigned)number(name, optarg, 1, 3600);
			break;
		case NO_COST:
			options.no_switch_cost = true;
			break;
		case SPEED:
			options.iterations_per_ms = number(name, optarg, 1, 1000000000);
			break;
		case CALIBRATE:
			options.calibrate = true;
			break;
		case WAIT:
			options.wait = true;
			break;
		case LIMIT:
			options.limit_s = (unsigned)number(name, optarg, 1, 86400);
			break;
		case HELP:
			printf(help, argv[0]);
			exit(EXIT_SUCCESS);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s' (see --help)\n", argv[0],
			argv[optind]);
		exit(2);
	}
	return options;
}
