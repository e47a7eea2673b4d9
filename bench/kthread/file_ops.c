/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * file_ops - a real-time task that does one operation on files in each period, how long each answer
 * took from the beginning of its period, and what late answers waited for.
 */
#include "file_ops.h"

#include "late.h"
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_ROUNDS 100000
#define PAGE 4096
/* Of the thread that notes what late answers wait for: below tekd and the witnesses of hogs. */
#define LATE_PRIORITY 97

static const char help[] =
	"Usage: file_ops [options] OPERATION DIRECTORY\n"
	"Does it in each period, from the first to the second time of a line `FROM TO` on standard "
	"input.\n"
	"\n"
	"  --bytes N         of each write or read (default 65536)\n"
	"  --period-us N     (default 50000)\n"
	"  --count N         at most so many times\n"
	"  --priority N      SCHED_FIFO of this priority\n"
	"  --name NAME       of the file in DIRECTORY (default file_ops)\n"
	"  --file-bytes N    begin anew after so many bytes (default 16 MiB)\n"
	"  --late-ms N       note what an answer waits for that takes longer (default: none)\n"
	"  --list            the names of the operations\n"
	"  --help            this text\n";

struct options {
	struct file_ops ops;
	const struct operation *operation;
	uint64_t period_ns, count, late_ns;
	int priority;
};

static struct options parse(int argc, char **argv)
{
	enum { BYTES, PERIOD, COUNT, PRIORITY, NAME, FILE_BYTES, LATE, LIST, HELP };
	static const struct option table[] = {
		[BYTES] = {"bytes", required_argument, NULL, 0},
		[PERIOD] = {"period-us", required_argument, NULL, 0},
		[COUNT] = {"count", required_argument, NULL, 0},
		[PRIORITY] = {"priority", required_argument, NULL, 0},
		[NAME] = {"name", required_argument, NULL, 0},
		[FILE_BYTES] = {"file-bytes", required_argument, NULL, 0},
		[LATE] = {"late-ms", required_argument, NULL, 0},
		[LIST] = {"list", no_argument, NULL, 0},
		[HELP] = {"help", no_argument, NULL, 0},
		{NULL, 0, NULL, 0},
	};
	struct options to = {.ops = {.name = "file_ops", .bytes = 64 << 10, .file_bytes = 16 << 20},
			     .period_ns = 50 * NS_PER_MS,
			     .count = MAX_ROUNDS};
	int index, c;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c)
			exit(2);
		const char *name = table[index].name;
		switch (index) {
		case BYTES:
			to.ops.bytes = number(name, optarg, PAGE, 1 << 24) / PAGE * PAGE;
			break;
		case PERIOD:
			to.period_ns = number(name, optarg, 1, 60000000) * NS_PER_US;
			break;
		case COUNT:
			to.count = number(name, optarg, 1, MAX_ROUNDS);
			break;
		case PRIORITY:
			to.priority = (int)number(name, optarg, 0, LATE_PRIORITY - 1);
			break;
		case NAME:
			to.ops.name = optarg;
			break;
		case FILE_BYTES:
			to.ops.file_bytes = number(name, optarg, PAGE, 1ull << 40);
			break;
		case LATE:
			to.late_ns = number(name, optarg, 1, 60000) * NS_PER_MS;
			break;
		case LIST:
			list_operations();
			exit(EXIT_SUCCESS);
		case HELP:
			fputs(help, stdout);
			exit(EXIT_SUCCESS);
		}
	}
	if (optind + 2 != argc)
		errx(2, "expected an operation and a directory (see --help)");
	to.operation = find_operation(argv[optind]);
	if (!to.operation)
		errx(2, "there is no operation '%s' (see --list)", argv[optind]);
	to.ops.directory = argv[optind + 1];
	if (to.ops.file_bytes < to.ops.bytes)
		to.ops.file_bytes = to.ops.bytes;
	return to;
}

static void open_all(struct options *options)
{
	struct file_ops *ops = &options->ops;

	ops->directory_fd = open(ops->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ops->directory_fd < 0)
		err(EXIT_FAILURE, "%s", ops->directory);
	/* O_DIRECT wants whole blocks. */
	ops->buffer = aligned_alloc(PAGE, ops->bytes);
	if (!ops->buffer)
		err(EXIT_FAILURE, "cannot keep %zu bytes", ops->bytes);
	memset(ops->buffer, 'k', ops->bytes);
	/* A file of an earlier run would be overwritten, which allocates no blocks. */
	char other[300];
	snprintf(other, sizeof(other), "%s.other", ops->name);
	unlinkat(ops->directory_fd, ops->name, 0);
	unlinkat(ops->directory_fd, other, 0);
	options->operation->open(ops);
	/* No page of the program is waited for, but a mapped file is. */
	lock_memory();
	if (ops->map && munlock(ops->map, ops->file_bytes))
		err(EXIT_FAILURE, "cannot unlock %s/%s", ops->directory, ops->name);
}

static void print(const struct iteration *iterations, uint64_t count, uint64_t cpu_ns,
		  uint64_t from_ns)
{
	print_rounds(iterations, count);
	printf(",\"cpu_ns\":%" PRIu64 ",\"samples\":[],", cpu_ns);
	late_print(from_ns);
	printf("}\n");
}

/* How many answers there were. */
static uint64_t run(struct options *options, struct iteration *iterations, uint64_t from_ns,
		    uint64_t to_ns)
{
	const struct operation *operation = options->operation;
	uint64_t count = 0, due_ns = from_ns;

	while (count < options->count) {
		/* One was before. */
		if (operation->prepare)
			operation->prepare(&options->ops, count + 1);
		/* A late preparation is no late answer. */
		while (due_ns < clock_ns())
			due_ns += options->period_ns;
		if (due_ns >= to_ns)
			break;
		sleep_until(due_ns);
		late_begin(due_ns);
		operation->work(&options->ops, count + 1);
		iterations[count].begin_ns = due_ns - from_ns;
		iterations[count].response_ns = clock_ns() - due_ns;
		late_end();
		count++;
	}
	return count;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	struct iteration *iterations = calloc(options.count, sizeof(*iterations));
	uint64_t from_ns, to_ns;

	if (!iterations)
		err(EXIT_FAILURE, "cannot keep %" PRIu64 " times", options.count);
	open_all(&options);
	if (options.late_ns)
		late_start(options.late_ns, options.priority ? LATE_PRIORITY : 0);
	be_realtime(options.priority);
	/* The first operation takes longer: tekd gets to know the task by it. */
	if (options.operation->prepare)
		options.operation->prepare(&options.ops, 0);
	options.operation->work(&options.ops, 0);
	wait_for_times(&from_ns, &to_ns);
	uint64_t cpu_ns = process_cpu_ns();
	uint64_t count = run(&options, iterations, from_ns, to_ns);
	/* To print is not real-time work. */
	sched_other();
	late_join();
	print(iterations, count, process_cpu_ns() - cpu_ns, from_ns);
	return EXIT_SUCCESS;
}
