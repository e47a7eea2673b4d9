// SPDX-License-Identifier: MIT OR Apache-2.0
// brood CPU: prints its pid. For each line of its input, "MS CHILD_MS", it has one child after
// another for MS, all on that CPU. Then it prints the children's CPU time, in ms. Each child spins
// for CHILD_MS and ends.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static long long children_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000LL +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void spin(long ms)
{
	long long end = now_ms() + ms;

	while (now_ms() < end)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	char line[64];
	long ms, child_ms;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%ld %ld", &ms, &child_ms) == 2) {
		long long end = now_ms() + ms, before = children_ms();

		while (now_ms() < end) {
			pid_t child = fork();

			if (child == 0)
				spin(child_ms);
			waitpid(child, NULL, 0);
		}
		printf("%lld\n", children_ms() - before);
		fflush(stdout);
	}
	return 0;
}
