/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "periodic.h"

#include "sampler.h"
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* At most so many times are kept; it ends when there are more. */
#define MAX_ROUNDS 400000
#define PAGE 4096

struct periodic periodic_parse(int argc, char **argv, const char *help)
{
	enum { BYTES, PERIOD, COUNT, PRIORITY, CPU, FILE_BYTES, FILES, DIRECT, SYNC, SAMPLE, HELP };
	static const struct option table[] = {
		[BYTES] = {"bytes", required_argument, NULL, 0},
		[PERIOD] = {"period-us", required_argument, NULL, 0},
		[COUNT] = {"count", required_argument, NULL, 0},
		[PRIORITY] = {"priority", required_argument, NULL, 0},
		[CPU] = {"cpu", required_argument, NULL, 0},
		[FILE_BYTES] = {"file-bytes", required_argument, NULL, 0},
		[FILES] = {"files", required_argument, NULL, 0},
		[DIRECT] = {"direct", no_argument, NULL, 0},
		[SYNC] = {"sync", no_argument, NULL, 0},
		[SAMPLE] = {"sample-ms", required_argument, NULL, 0},
		[HELP] = {"help", no_argument, NULL, 0},
		{NULL, 0, NULL, 0},
	};
	struct periodic task = {.bytes = 4096, .files = 1, .file_bytes = 64 << 20, .cpu = -1};
	int index, c;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c)
			exit(2);
		const char *name = table[index].name;
		switch (index) {
		case BYTES:
			task.bytes = number(name, optarg, 1, 1 << 30);
			break;
		case PERIOD:
			task.period_ns = number(name, optarg, 0, 60000000) * NS_PER_US;
			break;
		case COUNT:
			task.count = number(name, optarg, 1, MAX_ROUNDS);
			break;
		case PRIORITY:
			task.priority = (int)number(name, optarg, 0, 98);
			break;
		case CPU:
			task.cpu = (int)number(name, optarg, 0, 1023);
			break;
		case FILE_BYTES:
			task.file_bytes = number(name, optarg, 1, 1ull << 40);
			break;
		case FILES:
			task.files = (unsigned)number(name, optarg, 1, MAX_FILES);
			break;
		case DIRECT:
			task.direct = true;
			break;
		case SYNC:
			task.sync = true;
			break;
		case SAMPLE:
			task.sample_ns = number(name, optarg, 1, 60000) * NS_PER_MS;
			break;
		case HELP:
			fputs(help, stdout);
			exit(EXIT_SUCCESS);
		}
	}
	if (optind + 1 != argc)
		errx(2, "expected one file (see --help)");
	if (task.file_bytes < task.bytes)
		task.file_bytes = task.bytes;
	task.path = argv[optind];
	return task;
}

static void open_files(struct periodic *task, int flags)
{
	char path[4096];

	flags |= O_CLOEXEC | (task->direct ? O_DIRECT : 0) | (task->sync ? O_SYNC : 0);
	for (unsigned i = 0; i < task->files; i++) {
		if (task->files == 1)
			snprintf(path, sizeof(path), "%s", task->path);
		else
			snprintf(path, sizeof(path), "%s%u", task->path, i);
		task->fd[i] = open(path, flags, 0600);
		if (task->fd[i] < 0)
			err(EXIT_FAILURE, "%s", path);
	}
	/* O_DIRECT wants whole blocks. */
	task->buffer = aligned_alloc(PAGE, (task->bytes + PAGE - 1) / PAGE * PAGE);
	if (!task->buffer)
		err(EXIT_FAILURE, "cannot keep %zu bytes", task->bytes);
	memset(task->buffer, 'k', task->bytes);
}

static void print(const struct iteration *iterations, uint64_t count, uint64_t cpu_ns)
{
	print_rounds(iterations, count);
	printf(",\"cpu_ns\":%" PRIu64 ",", cpu_ns);
	sampler_print();
	printf("}\n");
}

void periodic_run(struct periodic *task, int flags, periodic_work work)
{
	uint64_t from_ns, to_ns, count = 0;
	uint64_t most = task->count ? task->count : MAX_ROUNDS;
	struct iteration *iterations = calloc(most, sizeof(*iterations));

	if (!iterations)
		err(EXIT_FAILURE, "cannot keep %" PRIu64 " times", most);
	open_files(task, flags);
	lock_memory();
	stay_on(task->cpu);
	be_realtime(task->priority);
	if (task->sample_ns)
		sampler_start(task->sample_ns, task->priority ? task->priority + 1 : 0);
	wait_for_times(&from_ns, &to_ns);
	sampler_go(from_ns, to_ns);
	uint64_t cpu_ns = process_cpu_ns();

	for (uint64_t due_ns = from_ns; due_ns < to_ns && count < most; count++) {
		sleep_until(due_ns);
		work(task, task->fd[count % task->files], count / task->files);
		uint64_t now_ns = clock_ns();
		iterations[count].begin_ns = due_ns - from_ns;
		iterations[count].response_ns = now_ns - due_ns;
		due_ns += task->period_ns;
		if (due_ns < now_ns)
			due_ns = now_ns;
	}
	/* To print is not real-time work. */
	sched_other();
	sampler_join();
	print(iterations, count, process_cpu_ns() - cpu_ns);
}
