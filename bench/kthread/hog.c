/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hog - real-time tasks, on each CPU the same, that use a share of each period: they leave the rest
 * of each CPU idle, whatever else runs meanwhile, because their shares end by the clock.  The time
 * that they lost to other threads is counted: the same program is the bystander that a boost must
 * not hurt.
 *
 * Saturating ones leave nothing; then the kernel stops all real-time threads of a CPU now and then
 * (RT throttling), the highest too. A witness of the highest priority on each CPU notes when.
 */
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_SATURATING_S 5
#define MOST_PERCENT 90
#define MAX_WINDOWS 1000
/* The witness wakes so often; a wake-up that is STOPPED_NS late means that its CPU was stopped. */
#define WITNESS_NS (2 * NS_PER_MS)
#define STOPPED_NS (15 * NS_PER_MS)
/* Work between two readings of the clock. */
#define WORK 300

static const char help[] =
	"Usage: hog [options]\n"
	"Uses each CPU from the first to the second time of a line `FROM TO` on standard input.\n"
	"\n"
	"  --priority N      SCHED_FIFO of this priority (default 0: an ordinary thread)\n"
	"  --period-us N     (default 10000)\n"
	"  --busy-us N       of each period, by the clock; at most 90% (default 9000)\n"
	"  --per-cpu N       share that among so many threads on each CPU, one after the other "
	"(default 1)\n"
	"  --saturate        all of it, for at most 5 s\n"
	"  --witness         note when real-time threads were stopped\n"
	"  --help            this text\n";

struct hog {
	pthread_t handle;
	int cpu;
	unsigned number;   /* of those of its CPU */
	uint64_t cpu_ns;   /* CPU time that it had */
	uint64_t lost_ns;  /* of its shares, when it did not have the CPU */
	uint64_t worst_ns; /* the most that it lost in one share */
	uint64_t iterations;
};

struct window {
	int cpu;
	uint64_t from_ns, to_ns; /* since FROM */
};

static struct hog *hogs;
static pthread_t *witnesses;
static struct window windows[MAX_WINDOWS];
static unsigned count, cpus, per_cpu = 1, window_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t ready, go;
static int priority;
static bool saturate, witness;
static uint64_t period_ns = 10 * NS_PER_MS, busy_ns = 9 * NS_PER_MS, from_ns, to_ns;

static void parse(int argc, char **argv)
{
	enum { PRIORITY, PERIOD, BUSY, PER_CPU, SATURATE, WITNESS, HELP };
	static const struct option table[] = {
		[PRIORITY] = {"priority", required_argument, NULL, 0},
		[PERIOD] = {"period-us", required_argument, NULL, 0},
		[BUSY] = {"busy-us", required_argument, NULL, 0},
		[PER_CPU] = {"per-cpu", required_argument, NULL, 0},
		[SATURATE] = {"saturate", no_argument, NULL, 0},
		[WITNESS] = {"witness", no_argument, NULL, 0},
		[HELP] = {"help", no_argument, NULL, 0},
		{NULL, 0, NULL, 0},
	};
	int index, c;

	while ((c = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (c)
			exit(2);
		const char *name = table[index].name;
		switch (index) {
		case PRIORITY:
			priority = (int)number(name, optarg, 0, 97);
			break;
		case PERIOD:
			period_ns = number(name, optarg, 100, 10000000) * NS_PER_US;
			break;
		case BUSY:
			busy_ns = number(name, optarg, 1, 10000000) * NS_PER_US;
			break;
		case PER_CPU:
			per_cpu = (unsigned)number(name, optarg, 1, 16);
			break;
		case SATURATE:
			saturate = true;
			break;
		case WITNESS:
			witness = true;
			break;
		case HELP:
			fputs(help, stdout);
			exit(EXIT_SUCCESS);
		}
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s' (see --help)", argv[optind]);
	if (saturate)
		busy_ns = period_ns;
	else if (busy_ns > period_ns / 100 * MOST_PERCENT)
		errx(2, "--busy-us is more than %d%% of --period-us (see --saturate)",
		     MOST_PERCENT);
}

static void iteration(struct hog *self, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t had_ns = thread_cpu_ns();
	while (clock_ns() < end_ns)
		work(WORK);
	uint64_t took_ns = end_ns - begin_ns;
	had_ns = thread_cpu_ns() - had_ns;
	uint64_t lost_ns = took_ns > had_ns ? took_ns - had_ns : 0;
	self->lost_ns += lost_ns;
	if (lost_ns > self->worst_ns)
		self->worst_ns = lost_ns;
	self->cpu_ns += had_ns;
	self->iterations++;
}

static void *hog_run(void *arg)
{
	struct hog *self = arg;
	uint64_t part_ns = busy_ns / per_cpu;

	stay_on(self->cpu);
	be_realtime(priority);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);
	uint64_t due_ns = from_ns + self->number * part_ns;
	for (; due_ns < to_ns; due_ns += period_ns) {
		uint64_t end_ns = due_ns + part_ns < to_ns ? due_ns + part_ns : to_ns;
		sleep_until(due_ns);
		/* A task that had no CPU for the whole share lost all of it. */
		iteration(self, due_ns, end_ns);
	}
	return NULL;
}

static void *witness_run(void *arg)
{
	struct hog *self = arg;

	stay_on(self->cpu);
	be_realtime(98);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&go);
	for (uint64_t due_ns = from_ns, now_ns; due_ns < to_ns; due_ns = now_ns + WITNESS_NS) {
		sleep_until(due_ns);
		now_ns = clock_ns();
		if (now_ns - due_ns < STOPPED_NS)
			continue;
		pthread_mutex_lock(&lock);
		if (window_count < MAX_WINDOWS)
			windows[window_count++] = (struct window){self->cpu, due_ns - from_ns,
								  now_ns - from_ns};
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static pthread_t create(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, run, arg);
	if (errno)
		err(EXIT_FAILURE, "cannot start a thread");
	return thread;
}

static void start(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "cannot tell the CPUs");
	cpus = (unsigned)CPU_COUNT(&set);
	count = cpus * per_cpu;
	hogs = calloc(count, sizeof(*hogs));
	witnesses = calloc(cpus, sizeof(*witnesses));
	if (!hogs || !witnesses)
		err(EXIT_FAILURE, "cannot keep %u threads", count);
	unsigned threads = count + (witness ? cpus : 0);
	pthread_barrier_init(&ready, NULL, threads + 1);
	pthread_barrier_init(&go, NULL, threads + 1);
	for (unsigned i = 0, cpu = 0; i < count; i++, cpu += i % per_cpu == 0) {
		while (!CPU_ISSET(cpu, &set))
			cpu++;
		hogs[i].cpu = (int)cpu;
		hogs[i].number = i % per_cpu;
		hogs[i].handle = create(hog_run, &hogs[i]);
		if (witness && !hogs[i].number)
			witnesses[i / per_cpu] = create(witness_run, &hogs[i]);
	}
}

static void print(void)
{
	printf("{\"hogs\":[");
	for (unsigned i = 0; i < count; i++)
		printf("%s{\"cpu\":%d,\"cpu_ns\":%" PRIu64 ",\"lost_ns\":%" PRIu64
		       ",\"worst_ns\":%" PRIu64 ",\"turns\":%" PRIu64 "}",
		       i ? "," : "", hogs[i].cpu, hogs[i].cpu_ns, hogs[i].lost_ns, hogs[i].worst_ns,
		       hogs[i].iterations);
	printf("],\"stopped\":[");
	for (unsigned i = 0; i < window_count; i++)
		printf("%s[%d,%" PRIu64 ",%" PRIu64 "]", i ? "," : "", windows[i].cpu,
		       windows[i].from_ns, windows[i].to_ns);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	start();
	lock_memory();
	pthread_barrier_wait(&ready);
	wait_for_times(&from_ns, &to_ns);
	if (saturate && to_ns > from_ns + MAX_SATURATING_S * NS_PER_S)
		errx(2, "--saturate is for at most %d s", MAX_SATURATING_S);
	pthread_barrier_wait(&go);
	for (unsigned i = 0; i < count; i++)
		pthread_join(hogs[i].handle, NULL);
	for (unsigned i = 0; witness && i < cpus; i++)
		pthread_join(witnesses[i], NULL);
	print();
	return EXIT_SUCCESS;
}
