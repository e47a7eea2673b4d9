/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "switch_cost.h"

#include "clock.h"
#include "pin.h"
#include "stage.h"

#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

double switch_cost_ns[SWITCH_GAMES];

/* The player that returns the balls of each game. */
static const unsigned returners[SWITCH_GAMES] = {1, 2, 0, 4};

static pthread_barrier_t between_games;
static int serve[2], back[2];

/* Switches of the returning player at the start and at the end of each batch. */
static uint64_t returner_switches[SWITCH_BATCHES + 1];

static bool skipped;

void switch_cost_init(bool skip)
{
	skipped = skip;
	pthread_barrier_init(&between_games, NULL, SWITCH_PLAYERS);
	if (pipe(serve) || pipe(back))
		err(EXIT_FAILURE, "cannot make a pipe");
}

static uint64_t switches_of_caller(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

static void send_ball(int fd)
{
	if (write(fd, "o", 1) != 1)
		err(EXIT_FAILURE, "cannot write to a pipe");
}

static void receive_ball(int fd)
{
	char ball;
	if (read(fd, &ball, 1) != 1)
		err(EXIT_FAILURE, "cannot read from a pipe");
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double play_server(void)
{
	static double per_switch[SWITCH_BATCHES];
	static uint64_t wall[SWITCH_BATCHES], own[SWITCH_BATCHES];

	/* One round trip first: then both threads are on the CPU they are pinned to. */
	send_ball(serve[1]);
	receive_ball(back[0]);
	for (unsigned batch = 0; batch < SWITCH_BATCHES; batch++) {
		uint64_t switches = switches_of_caller();
		uint64_t begin = clock_ns();
		for (unsigned i = 0; i < SWITCH_ROUND_TRIPS; i++) {
			send_ball(serve[1]);
			receive_ball(back[0]);
		}
		wall[batch] = clock_ns() - begin;
		own[batch] = switches_of_caller() - switches;
	}
	for (unsigned batch = 0; batch < SWITCH_BATCHES; batch++) {
		/* Counted, because a policy that preempts at a wake-up may save some. */
		uint64_t switches = own[batch] + returner_switches[batch + 1] -
				    returner_switches[batch];
		per_switch[batch] = (double)wall[batch] / (double)switches;
	}
	qsort(per_switch, SWITCH_BATCHES, sizeof(per_switch[0]), compare);
	return (per_switch[SWITCH_BATCHES / 2 - 1] + per_switch[SWITCH_BATCHES / 2]) / 2;
}

static void play_returner(void)
{
	receive_ball(serve[0]);
	returner_switches[0] = switches_of_caller();
	send_ball(back[1]);
	for (unsigned batch = 0; batch < SWITCH_BATCHES; batch++) {
		for (unsigned i = 0; i < SWITCH_ROUND_TRIPS; i++) {
			receive_ball(serve[0]);
			/* Before the last ball: the server reads it when it has the ball. */
			if (i == SWITCH_ROUND_TRIPS - 1)
				returner_switches[batch + 1] = switches_of_caller();
			send_ball(back[1]);
		}
	}
}

void switch_cost_take_part(unsigned player)
{
	cpu_set_t before;

	stage_wait(STAGE_QUIET);
	if (skipped)
		return;
	pin_to_last_cpu(&before);
	for (unsigned game = 0; game < SWITCH_GAMES; game++) {
		pthread_barrier_wait(&between_games);
		if (player == game)
			switch_cost_ns[game] = play_server();
		else if (player == returners[game])
			play_returner();
	}
	pthread_barrier_wait(&between_games);
	sched_setaffinity(0, sizeof(before), &before);
}
