/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lifts [OPTION]... [COMMAND [ARGUMENT]...]: tortures priority inheritance. A process under TEK
 * performs rounds of random steps, and the history of each round is judged (judge.h). COMMAND, such
 * as `tek run`, starts that process.
 *
 *   --library PATH   preload this library
 *   --seconds N      of rounds; default: 5
 *   --events N       go on until there have been so many events
 *   --seed N         of the first round; default: a random one, which is printed
 *   --replay FILE    perform the steps of this file instead, again and again
 *   --shrink N       on a fault, reduce the list of steps for up to N seconds
 *   --out FILE       write the list of steps that failed there
 *   --lenient        threads may lose the Fast Region at any time, as when tekd is killed
 *   --settle-ms N    patience with threads at rest; default: 2000
 *   --plant N        plant a fault. It must be found, and be shrunk to at most N steps
 *   --without STEP   leave out all steps of this name
 *   --ignore KIND    of faults: own, born, lift, cancel, result
 *
 * Exit status: 0 without a fault, 1 with one (with --plant 0 and 1), 77 where nothing can be
 * tortured.
 */
#include "process.h"
#include "raw.h"
#include "shrink.h"
#include "supervisor.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "patience.h"

enum {
	SKIPPED = 77,
	MOST_TRIES = 400,
	LEAST_TRIES = 20,
	HANG_S = 30,
	SHRINK_HANG_S = 2,
	SHRINK_SETTLE_MS = 200
};

static struct options {
	unsigned long seconds, events, seed, shrink_seconds;
	unsigned long plant;
	bool ignores[FAULT_END + 1];
	const char *replay, *out;
} options = {.seconds = 5};

static struct supervisor supervisor = {.settle_ms = 2000};
static struct step_list list, failing;
static struct verdict verdict_of_failing;

/* A list that is shrunk fails if a process that repeats it has the same kind of fault. */
struct search {
	enum fault_kind kind;
	unsigned int tries; /* rounds until a list counts as one that does not fail */
	double mean;        /* rounds that lists needed to fail */
	uint64_t end_ns;
};

static void ignore(const char *name)
{
	for (int kind = FAULT_NONE; kind <= FAULT_END; kind++)
		if (strcmp(name, fault_name(kind)) == 0)
			options.ignores[kind] = true;
}

/* Leaves out the faults that are ignored. */
static void filter(struct verdict *verdict)
{
	const unsigned int count = verdict->faults < MOST_FAULTS ? verdict->faults : MOST_FAULTS;

	verdict->faults = 0;
	for (unsigned int i = 0; i < count; i++)
		if (!options.ignores[verdict->list[i].kind])
			verdict->list[verdict->faults++] = verdict->list[i];
}

static bool is_over(void *context)
{
	const struct search *search = context;

	return now_ns() >= search->end_ns;
}

static bool has(const struct verdict *verdict, enum fault_kind kind)
{
	for (unsigned int i = 0; i < verdict->faults && i < MOST_FAULTS; i++)
		if (verdict->list[i].kind == kind)
			return true;
	return false;
}

/* Rounds until the list fails; 0: it does not. */
static unsigned int rounds_to_fail(const struct step_list *part, const struct search *search)
{
	struct verdict verdict;

	for (unsigned int i = 1; i <= search->tries && now_ns() < search->end_ns; i++) {
		supervisor_round(&supervisor, part, &verdict);
		const bool fails = has(&verdict, search->kind);
		if (fails)
			verdict_of_failing = verdict;
		if (verdict.faults)
			supervisor_end(&supervisor);
		if (fails)
			return i;
	}
	return 0;
}

static bool fails_again(const struct step_list *part, void *context)
{
	enum { FACTOR = 5 };
	struct search *search = context;
	const unsigned int rounds = part->count ? rounds_to_fail(part, search) : 0;

	if (!rounds)
		return false;
	search->mean = search->mean ? (3 * search->mean + rounds) / 4 : rounds;
	search->tries = (unsigned int)(FACTOR * search->mean);
	if (search->tries < LEAST_TRIES)
		search->tries = LEAST_TRIES;
	if (search->tries > MOST_TRIES)
		search->tries = MOST_TRIES;
	return true;
}

static void shrink_failing(enum fault_kind kind)
{
	static struct step_list performed;
	struct search search = {
		.kind = kind,
		.tries = MOST_TRIES,
		.end_ns = now_ns() + (uint64_t)options.shrink_seconds * 1000000000,
	};

	supervisor_performed(&supervisor, &performed);
	supervisor_end(&supervisor);
	supervisor.hang_ms = patient_seconds(SHRINK_HANG_S) * 1000L;
	supervisor.settle_ms = SHRINK_SETTLE_MS;
	if (fails_again(&performed, &search)) {
		failing = performed;
	} else if (!fails_again(&failing, &search)) {
		printf("# the list does not fail again\n");
		return;
	}
	shrink(&failing, fails_again, is_over, &search);
	printf("# shrunk to %u steps%s\n", failing.count,
	       is_over(&search) ? ", not to the end" : "");
}

static void print_faults(FILE *file)
{
	char text[512];

	for (unsigned int i = 0; i < verdict_of_failing.faults && i < MOST_FAULTS; i++) {
		fault_print(&verdict_of_failing.list[i], &failing, text, sizeof(text));
		fprintf(file, "# %s\n", text);
	}
	if (verdict_of_failing.list[0].kind == FAULT_HANG)
		supervisor_print_steps(&supervisor, file);
}

static void report(unsigned int round)
{
	printf("# seed %lu, round %u: %u faults\n", options.seed, round, verdict_of_failing.faults);
	print_faults(stdout);
	fflush(stdout);
	if (options.shrink_seconds) {
		shrink_failing(verdict_of_failing.list[0].kind);
		print_faults(stdout);
	}
	steps_write(&failing, stdout);
	FILE *out = options.out ? fopen(options.out, "we") : NULL;
	if (out) {
		print_faults(out);
		steps_write(&failing, out);
		fclose(out);
	}
}

static bool read_replay(void)
{
	FILE *file = fopen(options.replay, "re");
	const bool good = file && steps_read(&list, file);

	if (file)
		fclose(file);
	if (!good)
		fprintf(stderr, "lifts: %s is no list of steps\n", options.replay);
	return good;
}

static void choose_steps(unsigned int round)
{
	const uint64_t seed = options.seed * 1000003 + round;

	if (options.replay)
		return;
	steps_random(&list, seed);
	if (options.plant)
		steps_plant(&list, seed);
}

static int torture(void)
{
	const uint64_t end = now_ns() + (uint64_t)options.seconds * 1000000000;
	struct verdict verdict;
	unsigned int round = 0, lifts = 0;

	if (options.replay && !read_replay())
		return EXIT_FAILURE;
	printf("# seed %lu\n", options.seed);
	fflush(stdout);
	while (now_ns() < end || supervisor.events < options.events) {
		choose_steps(++round);
		supervisor_round(&supervisor, &list, &verdict);
		if (supervisor.pid && supervisor.shared->may_be_critical) {
			printf("no thread can be critical here: %s\n",
			       strerror(supervisor.shared->may_be_critical));
			return SKIPPED;
		}
		lifts += verdict.lifts;
		filter(&verdict);
		if (verdict.faults) {
			failing = list;
			verdict_of_failing = verdict;
			report(round);
			return options.plant && failing.count <= options.plant ? EXIT_SUCCESS
									       : EXIT_FAILURE;
		}
	}
	printf("# %u rounds, %llu events, %u samples of lifts, late: %u\n", round,
	       supervisor.events, lifts, supervisor.late);
	return options.plant ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const struct option known[] = {
	{"library", required_argument, NULL, 'l'},
	{"seconds", required_argument, NULL, 't'},
	{"events", required_argument, NULL, 'e'},
	{"seed", required_argument, NULL, 's'},
	{"replay", required_argument, NULL, 'r'},
	{"shrink", required_argument, NULL, 'x'},
	{"out", required_argument, NULL, 'o'},
	{"lenient", no_argument, NULL, 'i'},
	{"settle-ms", required_argument, NULL, 'm'},
	{"plant", required_argument, NULL, 'p'},
	{"without", required_argument, NULL, 'w'},
	{"ignore", required_argument, NULL, 'g'},
	{"process", required_argument, NULL, 'P'},
	{"report", required_argument, NULL, 'R'},
	{0},
};

/* Returns false if there is no such option with a number. */
static bool apply_number(int option, unsigned long number)
{
	switch (option) {
	case 't':
		options.seconds = number;
		return true;
	case 'e':
		options.events = number;
		return true;
	case 's':
		options.seed = number;
		return true;
	case 'x':
		options.shrink_seconds = number;
		return true;
	case 'm':
		supervisor.settle_ms = (long)number;
		return true;
	case 'p':
		options.plant = number;
		return true;
	default:
		return false;
	}
}

static bool apply(int option, const char *argument)
{
	switch (option) {
	case 'l':
		supervisor.library = argument;
		return true;
	case 'r':
		options.replay = argument;
		return true;
	case 'o':
		options.out = argument;
		return true;
	case 'i':
		supervisor.may_be_taken_back = true;
		return true;
	case 'w':
		return steps_without(argument);
	case 'g':
		ignore(argument);
		return true;
	default:
		return argument && apply_number(option, strtoul(argument, NULL, 10));
	}
}

static int parse(int argc, char **argv)
{
	for (int option; (option = getopt_long(argc, argv, "+", known, NULL)) >= 0;) {
		const int number = optarg ? atoi(optarg) : 0;
		if (option == 'P')
			exit(process_main(number));
		if (option == 'R' && optind + 2 <= argc)
			exit(report_main(number, (unsigned int)atoi(argv[optind]),
					 (unsigned int)atoi(argv[optind + 1])));
		if (!apply(option, optarg))
			return EXIT_FAILURE;
	}
	supervisor.prefix = argv + optind;
	supervisor.prefix_count = (unsigned int)(argc - optind);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return EXIT_FAILURE;
	own_path = path;
	options.seed = (unsigned long)(now_ns() / 1000 % 1000000);
	supervisor.hang_ms = patient_seconds(HANG_S) * 1000L;
	if (parse(argc, argv))
		return EXIT_FAILURE;
	if (!supervisor_init(&supervisor)) {
		perror("lifts");
		return EXIT_FAILURE;
	}
	const int status = torture();
	supervisor_end(&supervisor);
	return status;
}
