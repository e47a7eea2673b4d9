/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Table 3: a token goes round a ring of processes, each of which reads its own data.  Passing a
 * token and reading the data without a switch takes its time too, which is taken off, as lmbench
 * does.
 */
#include "micro.h"

#include "../response/pin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 16

static int pipes[MOST][2];
static unsigned processes, number;
static size_t bytes;
static char data[64 << 10];

static void read_data(void)
{
	unsigned long sum = 0;
	for (size_t i = 0; i < bytes; i += sizeof(sum))
		sum += *(const unsigned long *)(data + i);
	/* The result is used as far as the compiler knows. */
	__asm__ volatile("" : : "r"(sum));
}

static void pass(int from, int to)
{
	char token;
	must(read(from, &token, 1), "read");
	read_data();
	must(write(to, &token, 1), "write");
}

static void run_child(void)
{
	memset(data, 1, sizeof(data));
	for (;;)
		pass(pipes[number][0], pipes[(number + 1) % processes][1]);
}

static void go_round(unsigned times)
{
	while (times--) {
		must(write(pipes[1 % processes][1], "t", 1), "write");
		char token;
		must(read(pipes[0][0], &token, 1), "read");
		read_data();
	}
}

static void without_switch(unsigned times)
{
	while (times--) {
		must(write(pipes[0][1], "t", 1), "write");
		char token;
		must(read(pipes[0][0], &token, 1), "read");
		read_data();
	}
}

static double measure(unsigned count, size_t kib)
{
	pid_t children[MOST];
	cpu_set_t before;

	processes = count;
	bytes = kib << 10;
	memset(data, 1, sizeof(data));
	pin_to_last_cpu(&before);
	for (unsigned i = 0; i < count; i++)
		must(pipe(pipes[i]), "pipe");
	double own_ns = time_ns(without_switch, 2000);
	for (number = 1; number < count; number++)
		children[number] = start_child(run_child);
	double round_ns = time_ns(go_round, 1500 / count);
	for (unsigned i = 1; i < count; i++)
		end_child(children[i]);
	for (unsigned i = 0; i < count; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	must(sched_setaffinity(0, sizeof(before), &before), "sched_setaffinity");
	double ns = round_ns / count - own_ns;
	return (ns > 0 ? ns : 0) / 1e3;
}

static double measure_2_0(void)
{
	return measure(2, 0);
}

static double measure_2_16(void)
{
	return measure(2, 16);
}

static double measure_2_64(void)
{
	return measure(2, 64);
}

static double measure_8_16(void)
{
	return measure(8, 16);
}

static double measure_8_64(void)
{
	return measure(8, 64);
}

static double measure_16_16(void)
{
	return measure(16, 16);
}

const struct column switch_columns[] = {
	{3, "2p/0k", "us", measure_2_0},   {3, "2p/16k", "us", measure_2_16},
	{3, "2p/64k", "us", measure_2_64}, {3, "8p/16k", "us", measure_8_16},
	{3, "8p/64k", "us", measure_8_64}, {3, "16p/16k", "us", measure_16_16},
	{5, "2p/0k", "us", measure_2_0},   {0, NULL, NULL, NULL},
};
