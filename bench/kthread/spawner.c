/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spawner - has the kernel create new workers for writeback again and again, as the paper does
 * (kernel-threads-wapip-2007, V-D).  Kernel workers live in pools that are kept for minutes, so
 * load alone makes new ones only at first.  But a workqueue that is given another nice value gets a
 * pool of its own: with one worker, which kthreadd creates; and that one has kthreadd create the
 * next one before it does its first work.  So while kthreadd is starved the write-back waits.
 *
 * The process that starts this program saves the nice value and writes it back.
 */
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT "/sys/devices/virtual/workqueue/writeback/nice"
/* An unused pool is gone when its nice value is set again. */
#define NICE_VALUES 8

int main(int argc, char **argv)
{
	uint64_t from_ns, to_ns, done = 0, longest_ns = 0;
	char text[8];

	if (argc < 2 || argc > 3)
		errx(2, "usage: spawner PERIOD_MS [FILE]\n"
			"Gives the workqueue for writeback another nice value in each period.");
	uint64_t period_ns = number("period", argv[1], 10, 60000) * NS_PER_MS;
	const char *path = argc > 2 ? argv[2] : DEFAULT;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		err(EXIT_FAILURE, "%s", path);
	wait_for_times(&from_ns, &to_ns);
	for (uint64_t due_ns = from_ns; due_ns < to_ns; due_ns += period_ns) {
		sleep_until(due_ns);
		uint64_t begin_ns = clock_ns();
		snprintf(text, sizeof(text), "%d", -1 - (int)(done % NICE_VALUES));
		if (pwrite(fd, text, strlen(text), 0) < 0)
			err(EXIT_FAILURE, "%s", path);
		uint64_t took_ns = clock_ns() - begin_ns;
		if (took_ns > longest_ns)
			longest_ns = took_ns;
		done++;
	}
	printf("{\"pools\":%" PRIu64 ",\"longest_ns\":%" PRIu64 "}\n", done, longest_ns);
	return EXIT_SUCCESS;
}
