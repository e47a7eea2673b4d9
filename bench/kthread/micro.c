/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * micro DIRECTORY - measures operations that all programs use: system calls, signals, processes,
 * context switches, files, memory, local communication. Prints one line of JSON: each column with
 * its value.
 */
#include "micro.h"

#include "../response/clock.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCHES 11
#define LIMIT_S 100

const char *directory;

long must(long result, const char *what)
{
	if (result < 0)
		err(EXIT_FAILURE, "%s", what);
	return result;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

double median(double *numbers, unsigned count)
{
	qsort(numbers, count, sizeof(*numbers), compare);
	return numbers[count / 2];
}

double time_ns(void (*work)(unsigned times), unsigned times)
{
	double batches[BATCHES];

	work(times / 4 + 1);
	for (int i = 0; i < BATCHES; i++) {
		uint64_t begin = clock_ns();
		work(times);
		batches[i] = (double)(clock_ns() - begin) / times;
	}
	return median(batches, BATCHES);
}

pid_t start_child(void (*run)(void))
{
	pid_t child = (pid_t)must(fork(), "fork");
	if (!child) {
		alarm(LIMIT_S);
		run();
		_exit(EXIT_SUCCESS);
	}
	return child;
}

void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void print(const struct column *columns, const char **comma)
{
	for (const struct column *it = columns; it->name; it++) {
		printf("%s{\"table\":%u,\"name\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}", *comma,
		       it->table, it->name, it->unit, it->measure());
		*comma = ",";
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const char *comma = "";

	if (argc != 2)
		errx(2, "usage: micro DIRECTORY");
	/* That is what is executed, to measure it. */
	if (!strcmp(argv[1], "--nothing"))
		return EXIT_SUCCESS;
	directory = argv[1];
	must(chdir(directory), directory);
	alarm(LIMIT_S);
	putchar('[');
	print(process_columns, &comma);
	print(switch_columns, &comma);
	print(file_columns, &comma);
	print(local_columns, &comma);
	print(memory_columns, &comma);
	puts("]");
	return EXIT_SUCCESS;
}
