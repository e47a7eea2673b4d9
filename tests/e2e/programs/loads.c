/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads for the tests of the mediator.  The main thread only takes orders, so the threads to make
 * critical are the other ones; their ids are the first line of output.  Each line of input is one
 * order, each has one line of reply, and the program ends with its input.  In any case, nothing
 * runs for longer than LONGEST seconds.
 *
 * spin N CPUS         N threads, the first on the first of the CPUS (a list as "0,1") and so on.
 *                     "BEGIN END", two times of CLOCK_MONOTONIC in ns: all spin from one to the
 *                     other.  Reply, for each thread: CPU time, longest gap, both in ns.
 * respond WORK ROUNDS one thread.  Order, any line: sleeps 10 ms, then uses WORK us of CPU time,
 *                     ROUNDS times.  Reply: how long each took since it was to begin, in us.
 * breed               one thread.  "MS": has threads and processes that end in several ways, so
 *                     long, then some that stay.  Reply: how many started, how many of those
 *                     ended as they should, the ids of those that stay.  "die": its thread ends by
 *                     a system call; "exec": it executes sleep(1).
 */
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 60, LONGEST_SPIN = 30, MOST_THREADS = 64, MOST_ROUNDS = 1000 };
#define SECOND 1000000000ll

struct worker {
	pthread_t thread;
	atomic_int tid;
	int cpu;
	sem_t go, done;
	int64_t used, gap;
};

static struct worker workers[MOST_THREADS];
static int count = 1;
static char order[100];
static int64_t begin, end, took[MOST_ROUNDS];
static int work_us, rounds;
static atomic_int in_order; /* how many of the started ones ended as they should */
static int born, stay[4];

static int64_t now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

static void sleep_until(int64_t at)
{
	const struct timespec time = {.tv_sec = at / SECOND, .tv_nsec = at % SECOND};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
		;
}

static void spin(struct worker *self)
{
	const int64_t until = end < begin + LONGEST_SPIN * SECOND ? end
								  : begin + LONGEST_SPIN * SECOND;
	sleep_until(begin);
	const int64_t before = now(CLOCK_THREAD_CPUTIME_ID);
	int64_t last = begin, at;
	self->gap = 0;
	while ((at = now(CLOCK_MONOTONIC)) < until) {
		if (at - last > self->gap)
			self->gap = at - last;
		last = at;
	}
	if (until - last > self->gap)
		self->gap = until - last;
	self->used = now(CLOCK_THREAD_CPUTIME_ID) - before;
}

static void respond(struct worker *self)
{
	(void)self;
	for (int i = 0; i < rounds; i++) {
		const int64_t at = now(CLOCK_MONOTONIC) + SECOND / 100;
		sleep_until(at);
		const int64_t before = now(CLOCK_THREAD_CPUTIME_ID);
		while (now(CLOCK_THREAD_CPUTIME_ID) - before < work_us * 1000ll)
			;
		took[i] = now(CLOCK_MONOTONIC) - at;
	}
}

/* Threads and processes, and how each ends. */

static void *ends(void *how)
{
	atomic_fetch_add(&in_order, 1);
	if (how)
		syscall(SYS_exit, 0);
	return NULL;
}

static void *stays(void *tid)
{
	atomic_store((atomic_int *)tid, gettid());
	while (pause())
		;
	return NULL;
}

static void bear_thread(void *how)
{
	pthread_t thread;
	born++;
	if (pthread_create(&thread, NULL, ends, how) || pthread_join(thread, NULL))
		errx(EXIT_FAILURE, "pthread_create");
}

static void reap(pid_t child)
{
	int status;
	born++;
	if (child < 0)
		err(EXIT_FAILURE, "fork");
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7)
		atomic_fetch_add(&in_order, 1);
}

static void bear_process(void)
{
	const pid_t child = fork();
	if (child == 0) {
		bear_thread(NULL);
		bear_thread("by a system call");
		_exit(7);
	}
	reap(child);
}

static void bear_program(void)
{
	const pid_t child = vfork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(1);
	}
	reap(child);
}

static _Noreturn void stay_a_while(void)
{
	alarm(LONGEST);
	while (pause())
		;
	_exit(0);
}

/* A thread, a process, an orphaned process, and a program. */
static void create_lasting(void)
{
	static atomic_int tid;
	pthread_t thread;
	int fd[2];

	if (pthread_create(&thread, NULL, stays, &tid) || pipe(fd))
		err(EXIT_FAILURE, "pthread_create, pipe");
	while (!(stay[0] = atomic_load(&tid)))
		usleep(1000);
	stay[1] = fork();
	if (stay[1] == 0)
		stay_a_while();
	const pid_t between = fork();
	if (between == 0) {
		const pid_t child = fork();
		if (child == 0)
			stay_a_while();
		_exit(write(fd[1], &child, sizeof(child)) != sizeof(child));
	}
	if (waitpid(between, NULL, 0) != between ||
	    read(fd[0], &stay[2], sizeof(int)) != sizeof(int))
		err(EXIT_FAILURE, "fork");
	stay[3] = vfork();
	if (stay[3] == 0) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
}

static void breed(struct worker *self)
{
	(void)self;
	if (strcmp(order, "die\n") == 0)
		syscall(SYS_exit, 0);
	if (strcmp(order, "exec\n") == 0)
		execlp("sleep", "sleep", "60", (char *)NULL);
	const int64_t until = now(CLOCK_MONOTONIC) + atoi(order) * (SECOND / 1000);
	do {
		bear_thread(NULL);
		bear_thread("by a system call");
		bear_process();
		bear_program();
		usleep(1000);
	} while (now(CLOCK_MONOTONIC) < until);
	create_lasting();
}

/* Orders. */

struct kind {
	const char *name;
	void (*run)(struct worker *self);
};

static const struct kind *kind;

static void *live(void *argument)
{
	struct worker *self = argument;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(self->cpu, &set);
	if (self->cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		err(EXIT_FAILURE, "sched_setaffinity");
	atomic_store(&self->tid, gettid());
	for (;;) {
		while (sem_wait(&self->go))
			;
		kind->run(self);
		sem_post(&self->done);
	}
}

static void report(void)
{
	if (strcmp(kind->name, "spin") == 0) {
		for (int i = 0; i < count; i++)
			printf("%lld %lld ", (long long)workers[i].used, (long long)workers[i].gap);
	} else if (strcmp(kind->name, "respond") == 0) {
		for (int i = 0; i < rounds; i++)
			printf("%lld ", (long long)took[i] / 1000);
	} else {
		printf("%d %d %d %d %d %d", born, atomic_load(&in_order), stay[0], stay[1], stay[2],
		       stay[3]);
	}
	putchar('\n');
	fflush(stdout);
}

static int number(const char *text, int most)
{
	const int value = text ? atoi(text) : 0;
	if (value < 1 || value > most)
		errx(EXIT_FAILURE, "give a number up to %d", most);
	return value;
}

int main(int argc, char **argv)
{
	static const struct kind kinds[] = {{"spin", spin}, {"respond", respond}, {"breed", breed}};
	char *cpus = NULL;

	alarm(LONGEST);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && argc > 1; i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			kind = &kinds[i];
	if (!kind)
		errx(EXIT_FAILURE, "spin N CPUS, respond WORK ROUNDS, breed");
	if (kind->run == spin) {
		count = number(argv[2], MOST_THREADS);
		cpus = argv[3];
	} else if (kind->run == respond) {
		work_us = number(argv[2], 100000);
		rounds = number(argv[3], MOST_ROUNDS);
	}
	for (int i = 0; i < count; i++) {
		struct worker *worker = &workers[i];
		worker->cpu = -1;
		if (cpus) {
			char *rest;
			worker->cpu = (int)strtol(cpus, &rest, 10);
			cpus = *rest == ',' ? rest + 1 : argv[3];
		}
		sem_init(&worker->go, 0, 0);
		sem_init(&worker->done, 0, 0);
		if (pthread_create(&worker->thread, NULL, live, worker))
			errx(EXIT_FAILURE, "pthread_create");
		while (!atomic_load(&worker->tid))
			usleep(1000);
		printf("%d ", atomic_load(&worker->tid));
	}
	putchar('\n');
	fflush(stdout);
	while (fgets(order, sizeof(order), stdin)) {
		long long from = 0, to = 0;
		if (kind->run == spin && sscanf(order, "%lld %lld", &from, &to) != 2)
			errx(EXIT_FAILURE, "BEGIN END");
		begin = from;
		end = to;
		for (int i = 0; i < count; i++)
			sem_post(&workers[i].go);
		for (int i = 0; i < count; i++)
			while (sem_wait(&workers[i].done))
				;
		report();
	}
	return EXIT_SUCCESS;
}
