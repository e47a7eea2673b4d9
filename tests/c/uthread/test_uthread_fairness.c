/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The CPU time of running threads under each scheduler: shares, waits and turnaround times.  All
 * times are those of one worker.
 */
#include "fairness_support.h"

#include <pthread.h>
#include <sys/mman.h>

/* The CPU share in percent that the process must have: else other processes distort its figures. */
#define CPU_PERCENT 95
/* A check that fails this often with a CPU of its own is a failure. */
#define UNDISTURBED 5

#define ATTEMPTS_NS (15000 * MS)

/* Results of the child that runs the engine, for the test. */
static struct reported {
	bool disturbed;
	bool handed_in;
	uint64_t mean_turnaround;
} * reported;

/* Each thread's own, in cache lines of their own. */
struct hog {
	struct tek_uthread *thread;
	volatile unsigned long iterations;
} __attribute__((aligned(64)));

static void *burn(void *argument)
{
	struct hog *hog = argument;
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		hog->iterations++;
	return NULL;
}

static void start_hogs(struct hog *hogs, unsigned int count)
{
	atomic_store(&stop, false);
	for (unsigned int i = 0; i < count; i++) {
		hogs[i].iterations = 0;
		hogs[i].thread = spawn(burn, &hogs[i]);
	}
}

static void stop_hogs(struct hog *hogs, unsigned int count)
{
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < count; i++)
		join(hogs[i].thread);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return tek__ns_of(&time);
}

/*
 * Measures whether something holds, again while other processes take too much of the CPU.  A
 * hypervisor can take it as well, without a trace in the process.  So the test fails only if the
 * check fails UNDISTURBED times.
 */
static void check_undisturbed(bool (*holds)(void))
{
	const uint64_t began = tek__now(CLOCK_MONOTONIC);
	unsigned int undisturbed = 0;

	while (tek__now(CLOCK_MONOTONIC) - began < ATTEMPTS_NS) {
		uint64_t wall = tek__now(CLOCK_MONOTONIC), cpu = cpu_ns();
		if (holds())
			return;
		wall = tek__now(CLOCK_MONOTONIC) - wall;
		cpu = cpu_ns() - cpu;
		undisturbed += cpu * 100 / wall >= CPU_PERCENT;
		CHECK(undisturbed < UNDISTURBED);
	}
	reported->disturbed = true;
}

/* As with_engine(), for what only holds if the process has a CPU for itself. */
static void with_undisturbed_engine(const char *list, void (*body)(void))
{
	reported->disturbed = false;
	with_engine(list, body);
	if (reported->disturbed) {
		print_message("# needs a CPU for itself\n");
		skip();
	}
}

/* rr */

/* 7 threads with 1 ms each: periodic work of the machine (DAMON each 5 ms) hits all of them. */
#define SHARERS 7u

/* From the least to the greatest, in percent of the mean. */
struct spread {
	double below, above;
};

static double sum_of(const double *values, unsigned int count)
{
	double sum = 0;
	for (unsigned int i = 0; i < count; i++)
		sum += values[i];
	return sum;
}

static struct spread spread_of(const double *values, unsigned int count)
{
	double least = values[0], most = values[0];

	for (unsigned int i = 0; i < count; i++) {
		least = values[i] < least ? values[i] : least;
		most = values[i] > most ? values[i] : most;
	}
	double mean = sum_of(values, count) / count;
	return (struct spread){100 * (mean - least) / mean, 100 * (most - mean) / mean};
}

/*
 * Quanta are equal, whatever else the machine does.  The work in a quantum depends on other
 * programs that use caches and cores: `tek bench uthread` measures it.
 */
static void compare_shares(void)
{
	static struct hog hogs[SHARERS];
	double quanta[SHARERS];

	start_hogs(hogs, SHARERS);
	sleep_ms(2000);
	for (unsigned int i = 0; i < SHARERS; i++)
		quanta[i] = (double)hogs[i].thread->sched.quanta;
	stop_hogs(hogs, SHARERS);
	struct spread spread = spread_of(quanta, SHARERS);
	printf("# rr: shares from -%.2f%% to +%.2f%% by quanta\n", spread.below, spread.above);
	fflush(stdout);
	/* Of a process that hardly gets a CPU, one quantum is more than 2%. */
	double one = 100.0 * SHARERS / sum_of(quanta, SHARERS), bar = one > 2 ? one : 2;
	CHECK(spread.below <= bar && spread.above <= bar);
}

static void rr_gives_equal_shares_within_2_percent_in_2_s(void **state)
{
	(void)state;
	need_ticks();
	with_engine("sched=rr,quantum=1ms", compare_shares);
}

/* mlfq */

#define HOGS 50u
#define WAKES 300u
#define WOKEN 5000u

static int compare_ns(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return a < b ? -1 : a > b;
}

static uint64_t quantile(uint64_t *values, size_t count, unsigned int percent)
{
	qsort(values, count, sizeof(*values), compare_ns);
	return values[count * percent / 100];
}

#define SLEEP_TICKS 3u

/*
 * Sleeps repeatedly, and measures how many quanta late it wakes; the first thread does so beside
 * hogs.  It counts in ticks: time that a hypervisor takes is missing from these as well.
 */
static void measure_wakes(uint64_t *late)
{
	for (unsigned int i = 0; i < WAKES; i++) {
		const uint64_t began = tek_ut__workers[0].ticks;
		struct timespec deadline = tek__timespec_of(tek__now(CLOCK_MONOTONIC) +
							    SLEEP_TICKS * MS);
		struct tek_waiter waiter;
		tek_ut__waiter_init(&waiter);
		CHECK(tek_ut__wait(&waiter, &deadline, TEK_WAITS_SLEEP) == TEK_TIMED_OUT);
		const uint64_t passed = tek_ut__workers[0].ticks - began;
		late[i] = passed > SLEEP_TICKS ? passed - SLEEP_TICKS : 0;
	}
}

static bool wakes_are_soon(void)
{
	static struct hog hogs[HOGS];
	static uint64_t late[WAKES];

	start_hogs(hogs, HOGS);
	sleep_ms(500); /* the hogs come down to the lowest level */
	measure_wakes(late);
	stop_hogs(hogs, HOGS);
	const uint64_t p99 = quantile(late, WAKES, 99);
	printf("# mlfq: a thread that sleeps runs %u quanta after it is due (median), %u (p99)\n",
	       (unsigned int)quantile(late, WAKES, 50), (unsigned int)p99);
	fflush(stdout);
	return p99 <= 2;
}

static void wake_beside_hogs(void)
{
	check_undisturbed(wakes_are_soon);
}

static bool is_emulated(void)
{
	return patient_seconds(1) > 1;
}

static void need_a_machine(void)
{
	if (is_emulated()) {
		print_message("# an emulated guest does not see how it is disturbed\n");
		skip();
	}
}

static void mlfq_lets_a_sleeper_run_within_2_quanta_beside_50_that_compute(void **state)
{
	(void)state;
	need_ticks();
	need_a_machine();
	with_undisturbed_engine("sched=mlfq,quantum=1ms,promote=200", wake_beside_hogs);
}

/* One of the computing threads wakes the first thread repeatedly.  Both have the same ticks. */
static struct {
	struct tek_waiter waiter;
	atomic_bool waits;
	uint64_t woken_at; /* in ticks */
} woken;

static void *burn_and_wake(void *argument)
{
	struct hog *hog = argument;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		if (++hog->iterations % 100000 || !atomic_exchange(&woken.waits, false))
			continue;
		tek_ut__enter();
		woken.woken_at = tek_ut__workers[0].ticks;
		CHECK(tek_ut__wake(&woken.waiter, TEK_WOKEN));
		tek_ut__leave();
	}
	return NULL;
}

static void be_woken_beside_hogs(void)
{
	static struct hog hogs[HOGS + 1];
	static uint64_t waits[WOKEN];

	start_hogs(hogs, HOGS);
	hogs[HOGS].thread = spawn(burn_and_wake, &hogs[HOGS]);
	const uint64_t began = tek__now(CLOCK_MONOTONIC);
	unsigned int count = 0;
	while (count < WOKEN && tek__now(CLOCK_MONOTONIC) - began < ENOUGH_NS) {
		tek_ut__waiter_init(&woken.waiter);
		atomic_store(&woken.waits, true);
		CHECK(tek_ut__wait(&woken.waiter, NULL, TEK_WAITS_OTHER) == TEK_WOKEN);
		waits[count++] = tek_ut__workers[0].ticks - woken.woken_at;
	}
	stop_hogs(hogs, HOGS + 1);
	uint64_t p99 = quantile(waits, count, 99);
	printf("# mlfq: a thread that is woken runs %u ticks later (median), %u (p99), %u (at "
	       "most)\n",
	       (unsigned int)waits[count / 2], (unsigned int)p99, (unsigned int)waits[count - 1]);
	fflush(stdout);
	CHECK(p99 <= 2);
}

static void mlfq_lets_a_woken_one_run_within_2_quanta_beside_50_that_compute(void **state)
{
	(void)state;
	need_ticks();
	need_a_machine();
	with_engine("sched=mlfq,quantum=1ms,promote=200", be_woken_beside_hogs);
}

static void *burn_and_yield(void *argument)
{
	struct hog *hog = argument;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		hog->iterations++;
		yield_once();
	}
	return NULL;
}

static void yield_beside_a_hog(void)
{
	static struct hog hogs[3];

	atomic_store(&stop, false);
	hogs[0].thread = spawn(burn, &hogs[0]);
	hogs[1].thread = spawn(burn_and_yield, &hogs[1]);
	hogs[2].thread = spawn(burn_and_yield, &hogs[2]);
	sleep_ms(300);
	unsigned long before = hogs[0].iterations, yields = hogs[1].iterations;
	sleep_ms(300); /* less than until the hog is promoted */
	unsigned long iterations = hogs[0].iterations - before;
	CHECK(iterations > 0 && hogs[1].iterations > yields);
	stop_hogs(hogs, 3);
}

static void nobody_starves_beside_threads_that_yield(void **state)
{
	(void)state;
	need_ticks();
	static const char *const fair[] = {"sched=rr,quantum=1ms",
					   "sched=mlfq,quantum=1ms,promote=2000",
					   "sched=steal,quantum=1ms"};
	for (size_t i = 0; i < sizeof(fair) / sizeof(fair[0]); i++)
		with_engine(fair[i], yield_beside_a_hog);
}

/* psjf */

#define LONG_JOBS 2u
#define SHORT_JOBS 60u
#define JOBS (LONG_JOBS + SHORT_JOBS)
#define LONG_QUANTA 100
#define SHORT_QUANTA 4
#define ARRIVAL_QUANTA 8

/*
 * A job needs this many quanta, and a moment.  All is measured in quanta, so the load of other
 * processes does not matter.
 */
struct job {
	unsigned int quanta;
	uint64_t began, ended; /* in ticks */
	struct tek_uthread *thread;
};

static uint64_t ticks(void)
{
	return __atomic_load_n(&tek_ut__workers[0].ticks, __ATOMIC_RELAXED);
}

static void *do_job(void *argument)
{
	struct job *job = argument;
	const struct tek_uthread *self = tek_ut__here_self();

	while (__atomic_load_n(&self->sched.quanta, __ATOMIC_RELAXED) < job->quanta)
		;
	job->ended = ticks();
	return NULL;
}

/*
 * In a kernel thread, which no scheduler of TEK delays: long jobs at first, then short ones at
 * intervals.
 */
static void *hand_in(void *argument)
{
	struct job *jobs = argument;
	uint64_t next = ticks();

	for (unsigned int i = 0; i < JOBS; i++) {
		jobs[i].quanta = i < LONG_JOBS ? LONG_QUANTA : SHORT_QUANTA;
		jobs[i].began = ticks();
		jobs[i].thread = spawn(do_job, &jobs[i]);
		if (i < LONG_JOBS)
			continue;
		for (next += ARRIVAL_QUANTA; ticks() < next;)
			usleep(100);
		/* A late wake-up hands in several jobs at a time. */
		if (ticks() > next + 2)
			reported->disturbed = true;
	}
	__atomic_store_n(&reported->handed_in, true, __ATOMIC_RELEASE);
	return NULL;
}

static void do_jobs(void)
{
	static struct job jobs[JOBS];
	uint64_t sum = 0;
	pthread_t handle;

	reported->handed_in = false;
	CHECK(pthread_create(&handle, NULL, hand_in, jobs) == 0);
	while (!__atomic_load_n(&reported->handed_in, __ATOMIC_ACQUIRE))
		sleep_ms(50);
	CHECK(pthread_join(handle, NULL) == 0);
	for (unsigned int i = 0; i < JOBS; i++) {
		join(jobs[i].thread);
		sum += jobs[i].ended - jobs[i].began;
	}
	reported->mean_turnaround = sum / JOBS;
}

static uint64_t turnaround_with(const char *options)
{
	for (int attempt = 0; attempt < 20; attempt++) {
		reported->disturbed = false;
		with_engine(options, do_jobs);
		if (!reported->disturbed)
			return reported->mean_turnaround;
	}
	print_message("# needs a CPU for who hands in the jobs\n");
	skip();
	return 0;
}

static void psjf_needs_7_tenths_of_the_turnaround_time_of_rr_at_most(void **state)
{
	(void)state;
	need_ticks();
	/* Beside other guests an emulated one has no time left between ticks of 1 ms. */
	const bool slow = is_emulated();
	uint64_t rr = turnaround_with(slow ? "sched=rr,quantum=10ms" : "sched=rr,quantum=1ms");
	uint64_t psjf = turnaround_with(slow ? "sched=psjf,quantum=10ms"
					     : "sched=psjf,quantum=1ms");
	print_message("# mean turnaround in quanta: rr %u, psjf %u\n", (unsigned int)rr,
		      (unsigned int)psjf);
	assert_true(psjf * 10 <= rr * 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rr_gives_equal_shares_within_2_percent_in_2_s),
		cmocka_unit_test(mlfq_lets_a_sleeper_run_within_2_quanta_beside_50_that_compute),
		cmocka_unit_test(mlfq_lets_a_woken_one_run_within_2_quanta_beside_50_that_compute),
		cmocka_unit_test(nobody_starves_beside_threads_that_yield),
		cmocka_unit_test(psjf_needs_7_tenths_of_the_turnaround_time_of_rr_at_most),
	};
	reported = mmap(NULL, sizeof(*reported), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (reported == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
