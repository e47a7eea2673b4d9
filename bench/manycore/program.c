/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "program.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS_MAX 4096
#define LIMIT_S 600

struct program program = {.threads = 2};

struct member {
	pthread_t thread;
	void (*work)(unsigned int number);
	unsigned int number;
	long kernel_thread; /* that began to run it */
};

static const struct program_about *this;
static enum program_part part;
static uint64_t part_ns[PROGRAM_PARTS], entered_ns, cpu_ns;
static unsigned int most_kernel_threads, most_threads;

void program_must(int error, const char *what)
{
	errno = error;
	if (error)
		err(EXIT_FAILURE, "%s", what);
}

void *program_memory(void *memory)
{
	if (!memory)
		errx(EXIT_FAILURE, "no memory");
	return memory;
}

/* Whether `text` is the second of the two words that it may be. */
static bool is_second(const char *option, const char *text, const char *first, const char *second)
{
	if (strcmp(text, first) != 0 && strcmp(text, second) != 0)
		errx(2, "--%s: %s is neither %s nor %s", option, text, first, second);
	return strcmp(text, second) == 0;
}

void program_begin(int argc, char **argv, const struct program_about *about)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'},
		{"size", required_argument, NULL, 's'},
		{"files", required_argument, NULL, 'f'},
		{"barrier", required_argument, NULL, 'b'},
		{0},
	};
	bool misused = false;
	int found;

	this = about;
	program.size = about->size;
	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == 't')
			program.threads = (unsigned int)number("threads", optarg, 1, THREADS_MAX);
		else if (found == 's')
			program.size = number("size", optarg, about->least_size, about->most_size);
		else if (found == 'f' && about->has_files)
			program.files_in_memory = is_second("files", optarg, "tmpfs", "memory");
		else if (found == 'b' && about->has_barrier)
			program.pthread_barrier = is_second("barrier", optarg, "mutex", "pthread");
		else
			misused = true;
	}
	if (misused || optind < argc)
		errx(2, "usage: %s [--threads N] [--size N]%s%s", about->name,
		     about->has_files ? " [--files tmpfs|memory]" : "",
		     about->has_barrier ? " [--barrier mutex|pthread]" : "");
	alarm(LIMIT_S); /* it must end by itself, even if no process waits for it */
	program_forget();
}

void program_enter(enum program_part next)
{
	uint64_t now = clock_ns();

	part_ns[part] += now - entered_ns;
	entered_ns = now;
	part = next;
}

void program_forget(void)
{
	memset(part_ns, 0, sizeof(part_ns));
	cpu_ns = process_cpu_ns();
	entered_ns = clock_ns();
}

void program_stop(void)
{
	program_enter(SERIAL);
	cpu_ns = process_cpu_ns() - cpu_ns;
}

static void *run(void *argument)
{
	struct member *self = argument;

	self->kernel_thread = syscall(SYS_gettid);
	self->work(self->number);
	return NULL;
}

static int compare(const void *one, const void *other)
{
	const struct member *a = one, *b = other;
	return (a->kernel_thread > b->kernel_thread) - (a->kernel_thread < b->kernel_thread);
}

static unsigned int count_kernel_threads(struct member *members, unsigned int count)
{
	unsigned int different = 1;

	qsort(members, count, sizeof(*members), compare);
	for (unsigned int i = 1; i < count; i++)
		different += members[i].kernel_thread != members[i - 1].kernel_thread;
	return different;
}

void program_run(unsigned int count, void (*work)(unsigned int number))
{
	struct member *members = program_memory(calloc(count, sizeof(*members)));
	unsigned int kernel_threads;

	for (unsigned int i = 0; i < count; i++) {
		members[i].work = work;
		members[i].number = i;
		program_must(pthread_create(&members[i].thread, NULL, run, &members[i]),
			     "cannot create a thread");
	}
	for (unsigned int i = 0; i < count; i++)
		program_must(pthread_join(members[i].thread, NULL), "cannot join a thread");
	kernel_threads = count_kernel_threads(members, count);
	if (kernel_threads > most_kernel_threads)
		most_kernel_threads = kernel_threads;
	if (count > most_threads)
		most_threads = count;
	free(members);
}

int program_end(const char *result, bool right)
{
	printf("{\"program\":\"%s\",\"threads\":%u,\"size\":%" PRIu64
	       ",\"result\":\"%s\",\"right\":%s,\"wall_ns\":%" PRIu64 ",\"serial_ns\":%" PRIu64
	       ",\"file_ns\":%" PRIu64 ",\"parallel_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
	       ",\"locks\":%" PRIu64 ",\"barriers\":%" PRIu64
	       ",\"most_threads\":%u,\"kernel_threads\":%u}\n",
	       this->name, program.threads, program.size, result, right ? "true" : "false",
	       part_ns[SERIAL] + part_ns[FILES] + part_ns[PARALLEL], part_ns[SERIAL],
	       part_ns[FILES], part_ns[PARALLEL], cpu_ns, program.locks, program.barriers,
	       most_threads, most_kernel_threads);
	if (!right)
		warnx("%s: the result is wrong", this->name);
	return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
