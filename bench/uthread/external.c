/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * external - sums numbers that are read from files, each thread's from a file of its own (uthreads,
 * 5.3).
 *
 * The size is the number of numbers.  The files are in a directory of their own, which is removed
 * at the end, where temporary files lie ($TMPDIR).
 */
#include "crew.h"

#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[PATH_MAX];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sum;

static FILE *open_file(unsigned int number, const char *mode)
{
	char path[sizeof(directory) + 16];

	snprintf(path, sizeof(path), "%s/%u", directory, number);
	FILE *file = fopen(path, mode);
	if (!file)
		err(EXIT_FAILURE, "cannot open %s", path);
	return file;
}

static void read_file(unsigned int number)
{
	FILE *file = open_file(number, "r");
	char line[32];

	while (fgets(line, sizeof(line), file)) {
		uint64_t value = strtoul(line, NULL, 10);
		pthread_mutex_lock(&mutex);
		sum += value;
		pthread_mutex_unlock(&mutex);
	}
	fclose(file);
}

static uint64_t write_file(unsigned int number)
{
	struct crew_share share = crew_share(number);
	FILE *file = open_file(number, "w");
	uint64_t written = 0;

	for (uint64_t i = share.begin; i < share.end; i++) {
		uint64_t value = i * 7919 % 100003;
		fprintf(file, "%lu\n", (unsigned long)value);
		written += value;
	}
	if (fclose(file))
		err(EXIT_FAILURE, "cannot write into %s", directory);
	return written;
}

static void remove_files(void)
{
	char path[sizeof(directory) + 16];

	for (unsigned int i = 0; i < crew.threads; i++) {
		snprintf(path, sizeof(path), "%s/%u", directory, i);
		unlink(path);
	}
	rmdir(directory);
}

int main(int argc, char **argv)
{
	const char *parent = getenv("TMPDIR");
	uint64_t expected = 0;

	crew_begin(argc, argv, 1, 1);
	snprintf(directory, sizeof(directory), "%s/tek-external-XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(directory))
		err(EXIT_FAILURE, "cannot make %s", directory);
	atexit(remove_files);
	for (unsigned int i = 0; i < crew.threads; i++)
		expected += write_file(i);
	crew_run(read_file);
	return crew_end("external", sum, expected);
}
