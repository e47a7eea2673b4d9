// SPDX-License-Identifier: MIT OR Apache-2.0
// racer SECONDS TID...: sets a real-time policy of each of these threads for so long, from several
// threads at once. The kernel refuses nearly all of these calls. A test is about the calls that it
// checks while the thread is real-time and carries out later.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { RACERS = 3 };

static int count;
static pid_t *tids;
static time_t end;

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

static void *race(void *unused)
{
	const struct sched_param param = {.sched_priority = 40};

	while (now() < end)
		for (int n = 0; n < count; n++)
			sched_setscheduler(tids[n], SCHED_RR | SCHED_RESET_ON_FORK, &param);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[RACERS];

	if (argc < 3)
		return 2;
	count = argc - 2;
	tids = calloc((size_t)count, sizeof(*tids));
	if (!tids)
		return 1;
	for (int n = 0; n < count; n++)
		tids[n] = (pid_t)atol(argv[n + 2]);
	end = now() + atol(argv[1]);
	for (int n = 0; n < RACERS; n++)
		if (pthread_create(&threads[n], NULL, race, NULL))
			return 1;
	puts("ready");
	fflush(stdout);
	for (int n = 0; n < RACERS; n++)
		pthread_join(threads[n], NULL);
	return 0;
}
