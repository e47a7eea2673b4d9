/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * spin - how many times a second is a lock had that all threads want (rtos-linux-scalability-2018,
 * Figs 3 and 4)?
 *
 * Each thread locks 100,000 times, reads and writes 4 shared cache lines, and unlocks.  All kinds
 * of locks take turns in each round.  One line of JSON for each kind and number of threads: the
 * median of the rounds.  A measurement is ended after a while, and what was done until then counts:
 * queue locks may take hours where threads outnumber CPUs.  One that is over in a moment is
 * repeated with new threads, because what it comes to depends on which of them began first, and on
 * what the CPUs' predictors have come to: one thread's takes half a ms.
 */
#include "../../response/clock.h"
#include "../../response/median.h"
#include "../meet/crowd.h"
#include "kinds.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINES 4
#define ROUNDS_MAX 99
/* So long a measurement takes at least, unless it has been repeated so often. */
#define LEAST_NS (20 * NS_PER_MS)
#define REPEATED_MAX 100

static const char usage[] = "usage: spin [--threads N,N...] [--kinds NAME,NAME...] [--times N] "
			    " [--rounds N] [--limit-ms N]\n"
			    "            [--pin] [--memory local|interleaved]\n"
			    "       spin --list   the names of the kinds\n";

static struct crowd_options options = {
	.times = 100000, .rounds = 5, .limit_ms = 500, .places = true};

static struct {
	_Alignas(128) volatile uint64_t value;
	char rest[120];
} lines[LINES];
static struct spin_object object;
static const struct spin_kind *measured;
static _Alignas(128) atomic_bool stop;
static _Alignas(128) atomic_uint ready, go;

struct thread {
	pthread_t thread;
	unsigned int number;
	uint64_t done, end_ns;
};
static struct thread threads[CROWD_MOST];

static void pin(unsigned int number)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(number % (unsigned int)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(EXIT_FAILURE, "cannot pin a thread");
}

static inline __attribute__((always_inline)) uint64_t lock_often(const struct spin_kind *kind)
{
	uint64_t done = 0;

	while (done < options.times && !atomic_load_explicit(&stop, memory_order_relaxed)) {
		kind->lock(&object);
		for (int i = 0; i < LINES; i++)
			lines[i].value++;
		kind->unlock(&object);
		done++;
	}
	return done;
}

/*
 * Where the loop stands in a line of the processor's instruction cache is worth a tenth of the cost
 * of an uncontended lock, and to some kinds only; which ones depends on where those stand.  So it
 * is in four places, a quarter of a line apart (where a nop is one byte), and they take turns.
 */
#define IN_PLACE(nops) \
	static __attribute__((noinline, aligned(64))) \
	uint64_t lock_often_##nops(const struct spin_kind *kind) \
	{ \
		__asm__ volatile(".rept " #nops "\n\tnop\n\t.endr"); \
		return lock_often(kind); \
	}
IN_PLACE(0)
IN_PLACE(16)
IN_PLACE(32)
IN_PLACE(48)

static uint64_t (*const places[])(const struct spin_kind *) = {lock_often_0, lock_often_16,
							       lock_often_32, lock_often_48};
static unsigned int iteration;

static void *run(void *arg)
{
	struct thread *self = arg;

	if (options.pins)
		pin(self->number);
	atomic_fetch_add(&ready, 1);
	while (!atomic_load_explicit(&go, memory_order_acquire))
		sched_yield();
	self->done = places[iteration % (sizeof(places) / sizeof(places[0]))](measured);
	self->end_ns = clock_ns();
	return NULL;
}

static uint64_t sum_of_lines(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < LINES; i++)
		sum += lines[i].value;
	return sum;
}

/* How often the lock was had, and in what time. */
struct had {
	uint64_t times, ns;
};

/*
 * *stopped: not all of the times.  Threads that are in a queue when the time is over still take
 * their turn; that time counts, too.
 */
static struct had measure_once(const struct spin_kind *kind, unsigned int count, bool *stopped)
{
	uint64_t done = 0, last = 0;
	const uint64_t before = sum_of_lines();

	memset(&object, 0, sizeof(object));
	if (kind->init)
		kind->init(&object);
	measured = kind;
	iteration++;
	atomic_store(&stop, false);
	atomic_store(&ready, 0);
	atomic_store(&go, 0);
	for (unsigned int i = 0; i < count; i++) {
		threads[i].number = i;
		errno = pthread_create(&threads[i].thread, NULL, run, &threads[i]);
		if (errno)
			err(EXIT_FAILURE, "cannot start thread %u", i + 1);
	}
	while (atomic_load(&ready) < count)
		sched_yield();
	const uint64_t begin = clock_ns();
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += (long)(options.limit_ms % 1000 * NS_PER_MS);
	end.tv_sec += (time_t)(options.limit_ms / 1000) + end.tv_nsec / (long)NS_PER_S;
	end.tv_nsec %= (long)NS_PER_S;
	atomic_store_explicit(&go, 1, memory_order_release);
	for (unsigned int i = 0; i < count; i++) {
		if (!atomic_load(&stop) && pthread_timedjoin_np(threads[i].thread, NULL, &end) == 0)
			continue;
		atomic_store(&stop, true);
		*stopped = true;
		pthread_join(threads[i].thread, NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		done += threads[i].done;
		if (threads[i].end_ns > last)
			last = threads[i].end_ns;
	}
	if (sum_of_lines() - before != done * LINES)
		errx(EXIT_FAILURE, "%s with %u threads: two had the lock at the same time",
		     kind->name, count);
	return (struct had){.times = done, .ns = last - begin};
}

/* The ns for each time that a thread had the lock. */
static double measure(const struct spin_kind *kind, unsigned int count, bool *stopped)
{
	struct had all = {0};

	for (int i = 0; i < REPEATED_MAX && all.ns < LEAST_NS; i++) {
		const struct had one = measure_once(kind, count, stopped);
		all.times += one.times;
		all.ns += one.ns;
	}
	return (double)all.ns / (double)(all.times ? all.times : 1);
}

static void print(const char *kind, unsigned int count, double *ns, bool stopped)
{
	const double middle = median(ns, options.rounds);

	printf("{\"kind\": \"%s\", \"threads\": %u, \"ns_per_acquisition\": %.2f, \"Mops\": %.4f, "
	       "\"min_ns\": %.2f, \"max_ns\": %.2f, \"stopped\": %s}\n",
	       kind, count, middle, 1e3 / middle, ns[0], ns[options.rounds - 1],
	       stopped ? "true" : "false");
	fflush(stdout);
}

static unsigned int memory_nodes(void)
{
	unsigned int nodes = 0, number;
	char end;
	DIR *dir = opendir("/sys/devices/system/node");

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		nodes += sscanf(entry->d_name, "node%u%c", &number, &end) == 1;
	if (dir)
		closedir(dir);
	return nodes;
}

/* Queue nodes, stacks and control blocks of threads that are created from here on. */
static void place_memory(const char *where)
{
	const bool interleaves = strcmp(where, "interleaved") == 0;
	unsigned long nodes[16];

	if (!interleaves && strcmp(where, "local") != 0)
		errx(EXIT_FAILURE, "--memory: local or interleaved");
	if (memory_nodes() < 2)
		errx(EXIT_FAILURE,
		     "this machine has one memory node: local and interleaved are the same");
	memset(nodes, 0xff, sizeof(nodes));
	if (syscall(SYS_set_mempolicy, interleaves ? MPOL_INTERLEAVE : MPOL_LOCAL,
		    interleaves ? nodes : NULL, interleaves ? sizeof(nodes) * 8 : 0))
		err(EXIT_FAILURE, "cannot set the memory policy");
}

int main(int argc, char **argv)
{
	static double ns[KINDS_MOST][ROUNDS_MAX];
	const struct spin_kind *kinds;
	const unsigned int all = spin_kinds(&kinds);
	unsigned int wanted = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (unsigned int kind = 0; kind < all; kind++)
			puts(kinds[kind].name);
		return EXIT_SUCCESS;
	}
	crowd_options(&options, argc, argv, usage);
	if (options.memory)
		place_memory(options.memory);
	for (unsigned int kind = 0; kind < all; kind++)
		wanted += crowd_wants(&options, kinds[kind].name);
	if (wanted == 0)
		errx(EXIT_FAILURE, "--kinds: there is none of these");
	for (unsigned int i = 0; i < options.thread_counts; i++) {
		const unsigned int count = options.threads[i];
		bool stopped[KINDS_MOST] = {false};

		for (unsigned int round = 0; round < options.rounds; round++)
			for (unsigned int kind = 0; kind < all; kind++)
				if (crowd_wants(&options, kinds[kind].name))
					ns[kind][round] = measure(&kinds[kind], count,
								  &stopped[kind]);
		for (unsigned int kind = 0; kind < all; kind++)
			if (crowd_wants(&options, kinds[kind].name))
				print(kinds[kind].name, count, ns[kind], stopped[kind]);
	}
	return EXIT_SUCCESS;
}
