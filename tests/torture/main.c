/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lifts [OPTION]... [COMMAND [ARGUMENT]...]: tortures priority inheritance. A process under TEK
 * performs rounds of random steps, and the history of each round is judged (judge.h). COMMAND, such
 * as `tek run`, starts that process.
 *
 *   --library PATH   preload this library
 *   --seconds N      end after this time, --events N: or after so many events; default: 5 s
 *   --seed N         of the first round; default: a random one, which is printed
 *   --replay FILE    perform the steps of this file instead, again and again
 *   --shrink N       on a fault, reduce the list of steps for up to N seconds
 *   --out FILE       write the list of steps that failed there
 *   --lenient        threads may lose the Fast Region at any time, as when tekd is killed
 *   --settle-ms N    patience with threads at rest; default: 2000
 *   --plant          plant a fault
 *   --ignore KIND    of faults: own, born, lift, cancel, result
 *
 * Exit status: 0 without a fault, 1 with one, 77 where nothing can be tortured.
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

enum { SKIPPED = 77, MOST_TRIES = 400, HANG_S = 30, SHRINK_HANG_S = 3 };

static struct options {
	unsigned long seconds, events, seed, shrink_seconds;
	bool plant;
	bool ignores[FAULT_END + 1];
	const char *replay, *out;
} options = {.seconds = 5};

static struct supervisor supervisor = {.settle_ms = 2000};
static struct step_list list, failing;

/* A list that is shrunk fails if a process that repeats it has the same kind of fault. */
struct search {
	enum fault_kind kind;
	unsigned int tries; /* rounds of a list that does not fail */
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

static bool fails_again(const struct step_list *part, void *context)
{
	const struct search *search = context;
	struct verdict verdict;
	bool fails = false;

	if (!part->count)
		return false;
	for (unsigned int i = 0; i < search->tries && !fails && !is_over(context); i++) {
		supervisor_round(&supervisor, part, &verdict);
		fails = has(&verdict, search->kind);
		if (verdict.faults)
			supervisor_end(&supervisor);
	}
	return fails;
}

/* How many rounds the list needs to fail; 0: it does not fail again. */
static unsigned int count_tries(struct search *search)
{
	enum { SAMPLES = 3 };
	unsigned int rounds = 0;

	for (int i = 0; i < SAMPLES; i++) {
		struct verdict verdict = {0};
		for (;;) {
			if (rounds++ == MOST_TRIES || is_over(search))
				return i ? MOST_TRIES : 0;
			supervisor_round(&supervisor, &failing, &verdict);
			if (verdict.faults)
				supervisor_end(&supervisor);
			if (has(&verdict, search->kind))
				break;
		}
	}
	return 2 * rounds;
}

static void shrink_failing(enum fault_kind kind)
{
	struct search search = {
		.kind = kind,
		.end_ns = now_ns() + (uint64_t)options.shrink_seconds * 1000000000,
	};

	supervisor_end(&supervisor);
	supervisor.hang_ms = patient_seconds(SHRINK_HANG_S) * 1000L;
	search.tries = count_tries(&search);
	if (!search.tries) {
		printf("# the list does not fail again\n");
		return;
	}
	printf("# shrinking, with up to %u rounds for each list\n", search.tries);
	fflush(stdout);
	shrink(&failing, fails_again, is_over, &search);
	printf("# shrunk to %u steps%s\n", failing.count, is_over(&search) ? ", not to the end" : "");
}

static void report(const struct verdict *verdict, unsigned int round)
{
	char text[512];
	FILE *out = options.out ? fopen(options.out, "we") : NULL;

	printf("# seed %lu, round %u: %u faults\n", options.seed, round, verdict->faults);
	for (unsigned int i = 0; i < verdict->faults && i < MOST_FAULTS; i++) {
		fault_print(&verdict->list[i], &failing, text, sizeof(text));
		printf("# %s\n", text);
		if (out)
			fprintf(out, "# %s\n", text);
	}
	if (verdict->list[0].kind == FAULT_HANG) {
		supervisor_print_steps(&supervisor, stdout);
		if (out)
			supervisor_print_steps(&supervisor, out);
	}
	fflush(stdout);
	if (options.shrink_seconds)
		shrink_failing(verdict->list[0].kind);
	steps_write(&failing, stdout);
	if (out) {
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
	while (now_ns() < end && (!options.events || supervisor.events < options.events)) {
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
			report(&verdict, round);
			return EXIT_FAILURE;
		}
	}
	printf("# %u rounds, %llu events, %u samples of lifts, late: %u\n", round,
	       supervisor.events, lifts, supervisor.late);
	return EXIT_SUCCESS;
}

static int parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"library", required_argument, NULL, 'l'}, {"seconds", required_argument, NULL, 't'},
		{"events", required_argument, NULL, 'e'},  {"seed", required_argument, NULL, 's'},
		{"replay", required_argument, NULL, 'r'},  {"shrink", required_argument, NULL, 'x'},
		{"out", required_argument, NULL, 'o'},	   {"lenient", no_argument, NULL, 'i'},
		{"settle-ms", required_argument, NULL, 'm'}, {"plant", no_argument, NULL, 'p'},
		{"ignore", required_argument, NULL, 'g'},
		{"process", required_argument, NULL, 'P'}, {"report", required_argument, NULL, 'R'},
		{0},
	};

	for (int option; (option = getopt_long(argc, argv, "+", known, NULL)) >= 0;) {
		const unsigned long number = optarg ? strtoul(optarg, NULL, 10) : 0;
		switch (option) {
		case 'l':
			supervisor.library = optarg;
			break;
		case 't':
			options.seconds = number;
			break;
		case 'e':
			options.events = number;
			break;
		case 's':
			options.seed = number;
			break;
		case 'r':
			options.replay = optarg;
			break;
		case 'x':
			options.shrink_seconds = number;
			break;
		case 'o':
			options.out = optarg;
			break;
		case 'i':
			supervisor.may_be_taken_back = true;
			break;
		case 'm':
			supervisor.settle_ms = (long)number;
			break;
		case 'p':
			options.plant = true;
			break;
		case 'g':
			ignore(optarg);
			break;
		case 'P':
			exit(process_main((int)number));
		case 'R':
			if (optind + 2 > argc)
				return EXIT_FAILURE;
			exit(report_main((int)number, (unsigned int)atoi(argv[optind]),
					 (unsigned int)atoi(argv[optind + 1])));
		default:
			return EXIT_FAILURE;
		}
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
