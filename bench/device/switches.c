/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * switches - how long does it take a thread to become time-critical, and to be normal again?
 * Prints one line of JSON with the time of each call, in ns, and the policies that it then had.
 */
#include "../response/clock.h"
#include "../response/pin.h"

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

#define MAX_SWITCHES 100000
#define FIRST 20 /* are not counted: everything is used for the first time */
#define PAUSE_NS (4 * NS_PER_MS)

static uint64_t *times[2];

static uint64_t timed(int policy)
{
	struct sched_param param = {.sched_priority = 0};
	uint64_t begin = clock_ns();
	errno = pthread_setschedparam(pthread_self(), policy, &param);
	uint64_t ns = clock_ns() - begin;
	if (errno)
		err(EXIT_FAILURE, "scheduling policy %d", policy);
	return ns;
}

static void print(const char *name, const uint64_t *values, unsigned count)
{
	printf("\"%s\":[", name);
	for (unsigned i = 0; i < count; i++)
		printf("%s%" PRIu64, i ? "," : "", values[i]);
	printf("],");
}

int main(int argc, char **argv)
{
	char *end = NULL, line[8];
	unsigned long count = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
	long policy = SCHED_OTHER;

	if (!count || count > MAX_SWITCHES || *end)
		errx(2, "usage: switches COUNT (at most %d)", MAX_SWITCHES);
	alarm(300);
	for (int i = 0; i < 2; i++) {
		times[i] = calloc(count, sizeof(**times));
		if (!times[i])
			err(EXIT_FAILURE, "cannot keep %lu times", count);
	}
	/* The benchmark reads the present policy, and lets this process go on. */
	timed(SCHED_TEK);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return EXIT_SUCCESS;
	timed(SCHED_OTHER);
	for (unsigned long i = 0; i < count + FIRST; i++) {
		sleep_until(clock_ns() + PAUSE_NS);
		uint64_t enter_ns = timed(SCHED_TEK);
		policy = syscall(SYS_sched_getscheduler, 0);
		uint64_t leave_ns = timed(SCHED_OTHER);
		if (i < FIRST)
			continue;
		times[0][i - FIRST] = enter_ns;
		times[1][i - FIRST] = leave_ns;
	}
	printf("{");
	print("enter_ns", times[0], (unsigned)count);
	print("leave_ns", times[1], (unsigned)count);
	printf("\"policy\":%ld}\n", policy & ~(long)SCHED_RESET_ON_FORK);
	return EXIT_SUCCESS;
}
