/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads are dealt to CPUs; the program's own setting precedes.  Each test is a new process. */
#include "life/confine.h"
#include "patience.h"
#include "vectors.h"

#include "base/real.h"
#include "place/config.h"
#include "place/local.h"
#include "place/mask.h"
#include "place/number.h"
#include "place/place.h"
#include "threads/process.h"

#include <grp.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <threads.h>
#include <time.h>

enum { THREADS = 5 };

static struct tek_mask allowed;
static unsigned int cpus[2]; /* the first two that may be used */

/*
 * The only CPU of the calling thread, from the kernel, past each interposed symbol; -1: it has
 * several.
 */
static int only_cpu(void)
{
	struct tek_mask mask;

	if (!tek__mask_get(0, &mask))
		return -1;
	for (unsigned int cpu = 0; cpu < TEK_MASK_BITS; cpu++) {
		const struct tek_mask one = tek__mask_of(cpu);
		if (tek__mask_has(&mask, cpu))
			return tek__mask_equal(&mask, &one) ? (int)cpu : -1;
	}
	return -1;
}

static void *report_cpu(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)only_cpu();
}

static void *report_policy(void *unused)
{
	(void)unused;
	const int reset = kernel_reset_on_fork(0) ? 1000 : 0;
	return (void *)(intptr_t)(kernel_policy(0) * 100 + kernel_rt_priority(0) + reset);
}

/* Returns the value that a new thread reports of itself. */
static int reported_by(void *(*report)(void *), const pthread_attr_t *attr)
{
	pthread_t thread;
	void *reported;

	if (pthread_create(&thread, attr, report, NULL) || pthread_join(thread, &reported))
		return -2;
	return (int)(intptr_t)reported;
}

/* As with TEK_PLACE of these two CPUs, from the start. */
static void begin(const char *more)
{
	char text[64];

	snprintf(text, sizeof(text), "%scpus=%u:%u", more, cpus[0], cpus[1]);
	setenv("TEK_PLACE", text, 1);
	tek__place_start();
	tek__place_main();
}

static bool have_two_cpus(void)
{
	unsigned int found = 0;

	tek__mask_get(0, &allowed);
	for (unsigned int cpu = 0; cpu < TEK_PLACE_MOST_CPUS && found < 2; cpu++) {
		if (tek__mask_has(&allowed, cpu))
			cpus[found++] = cpu;
	}
	return found == 2;
}

static void need_two_cpus(void)
{
	if (!have_two_cpus()) {
		print_message("# needs two CPUs\n");
		skip();
	}
}

static int deal(void)
{
	begin("");
	if (only_cpu() != (int)cpus[0])
		return 1;
	for (int i = 1; i < THREADS; i++) {
		if (reported_by(report_cpu, NULL) != (int)cpus[i % 2])
			return 1 + i;
	}
	return 0;
}

static void threads_are_dealt_to_the_cpus_round_robin(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(deal), 0);
}

static int keep_attribute(void)
{
	pthread_attr_t attr;
	const struct tek_mask own = tek__mask_of(cpus[0]);

	begin("");
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(own), (const cpu_set_t *)&own);
	/* And no CPU is dealt to it. */
	return reported_by(report_cpu, &attr) != (int)cpus[0] ||
	       reported_by(report_cpu, &attr) != (int)cpus[0] ||
	       reported_by(report_cpu, NULL) != (int)cpus[1];
}

static void a_thread_with_an_affinity_in_its_attributes_keeps_it(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(keep_attribute), 0);
}

static int move(pthread_t thread, const struct tek_mask *mask)
{
	return pthread_setaffinity_np(thread, sizeof(*mask), (const cpu_set_t *)mask);
}

static struct tek_mask reported_affinity(pthread_t thread)
{
	struct tek_mask mask;

	if (pthread_getaffinity_np(thread, sizeof(mask), (cpu_set_t *)&mask))
		abort();
	return mask;
}

static bool is_reported(pthread_t thread, const struct tek_mask *mask)
{
	const struct tek_mask reported = reported_affinity(thread);
	return tek__mask_equal(&reported, mask);
}

/* Where it is, where TEK would not have put the next ones, and where TEK put it. */
static int keep_inherited(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]), other = tek__mask_of(cpus[1]);

	begin("");
	if (move(pthread_self(), &other) || reported_by(report_cpu, NULL) != (int)cpus[1] ||
	    reported_by(report_cpu, NULL) != (int)cpus[1] || !is_reported(pthread_self(), &other))
		return 1;
	return move(pthread_self(), &own) || reported_by(report_cpu, NULL) != (int)cpus[0] ||
	       reported_by(report_cpu, NULL) != (int)cpus[0] || !is_reported(pthread_self(), &own);
}

static void a_thread_that_chose_its_affinity_hands_it_down_as_without_tek(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(keep_inherited), 0);
}

static int pinned_child(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]);
	return only_cpu() == (int)cpus[0] && is_reported(pthread_self(), &own) ? 0 : 3;
}

static int fork_pinned(void)
{
	const struct tek_mask own = tek__mask_of(cpus[0]);

	begin("");
	return move(pthread_self(), &own) ? 2 : in_child(pinned_child);
}

static void the_child_of_a_fork_stays_where_its_parent_chose_to_be(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(fork_pinned), 0);
}

static int restore(void)
{
	const struct tek_mask other = tek__mask_of(cpus[1]);

	begin("");
	for (int i = 0; i < 2; i++) {
		const struct tek_mask saved = reported_affinity(pthread_self());
		if (i == 1 && move(pthread_self(), &other))
			return 2;
		if (move(pthread_self(), &saved) || only_cpu() != (int)cpus[0] ||
		    !is_reported(pthread_self(), &allowed))
			return 3;
		/* The first thread has cpus[0]. */
		if (reported_by(report_cpu, NULL) != (int)cpus[1] ||
		    reported_by(report_cpu, NULL) != (int)cpus[0])
			return 4;
	}
	return 0;
}

static void a_thread_that_sets_the_reported_affinity_goes_to_its_place(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(restore), 0);
}

static int attribute_as_reported(void)
{
	pthread_attr_t attr;

	begin("");
	const struct tek_mask reported = reported_affinity(pthread_self());
	pthread_attr_init(&attr);
	pthread_attr_setaffinity_np(&attr, sizeof(reported), (const cpu_set_t *)&reported);
	return reported_by(report_cpu, &attr) != (int)cpus[1];
}

static void a_thread_with_its_creators_reported_affinity_as_attribute_is_dealt(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(attribute_as_reported), 0);
}

static pthread_barrier_t moment;

/* Reports the CPU of a new thread, after another thread has set this thread's affinity. */
static void *wait_and_create(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&moment);
	pthread_barrier_wait(&moment);
	return (void *)(intptr_t)(only_cpu() * 10000 + reported_by(report_cpu, NULL));
}

static int move_other(void)
{
	const struct tek_mask second = tek__mask_of(cpus[1]);
	pthread_t thread;
	void *reported;

	begin("");
	pthread_barrier_init(&moment, NULL, 2);
	if (pthread_create(&thread, NULL, wait_and_create, NULL))
		return 2;
	pthread_barrier_wait(&moment);
	/* It is there already, but not by the program's word. */
	if (!is_reported(thread, &allowed) || move(thread, &second) ||
	    !is_reported(thread, &second))
		return 3;
	pthread_barrier_wait(&moment);
	pthread_join(thread, &reported);
	return (uintptr_t)reported != cpus[1] * 10000 + cpus[1];
}

static void a_thread_that_is_moved_by_another_thread_hands_that_down(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(move_other), 0);
}

static int lose_cpu(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	begin("");
	/* One that the process may not use any more. */
	tek__place_config.cpus[1] = TEK_PLACE_MOST_CPUS - 1;
	return reported_by(report_cpu, NULL) != -1 || only_cpu() != (int)cpus[0];
}

static void a_thread_whose_cpu_is_gone_is_not_left_on_the_one_of_its_creator(void **state)
{
	(void)state;
	need_two_cpus();
	if (tek__mask_has(&allowed, TEK_PLACE_MOST_CPUS - 1))
		skip();
	assert_int_equal(in_child(lose_cpu), 0);
}

static int count_cpus(void)
{
	cpu_set_t by_thread, by_pid, by_zero;
	const cpu_set_t *expected = (const cpu_set_t *)&allowed;
	char large[2 * sizeof(struct tek_mask)];

	begin("");
	if (sched_getaffinity(0, sizeof(by_zero), &by_zero) ||
	    sched_getaffinity(getpid(), sizeof(by_pid), &by_pid) ||
	    pthread_getaffinity_np(pthread_self(), sizeof(by_thread), &by_thread) ||
	    sched_getaffinity(0, sizeof(large), (cpu_set_t *)large))
		return 2;
	if (memcmp(large, &allowed, sizeof(allowed)) != 0)
		return 3;
	return !CPU_EQUAL(&by_zero, expected) || !CPU_EQUAL(&by_pid, expected) ||
	       !CPU_EQUAL(&by_thread, expected);
}

static void a_program_that_counts_cpus_finds_all_that_it_may_use(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(count_cpus), 0);
}

static int report_cpu_c11(void *unused)
{
	(void)unused;
	return only_cpu();
}

static int deal_c11(void)
{
	thrd_t thread;
	int reported;

	begin("");
	if (thrd_create(&thread, report_cpu_c11, NULL) != thrd_success ||
	    thrd_join(thread, &reported) != thrd_success)
		return 2;
	return reported != (int)cpus[1];
}

static void threads_of_c11_are_dealt_too(void **state)
{
	(void)state;
	need_two_cpus();
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know thrd_join\n");
	skip();
#endif
	assert_int_equal(in_child(deal_c11), 0);
}

static sem_t reported_by_library;
static int reported_cpu, reported_policy;

/* In a thread that the C library made. */
static void report_by_library(union sigval unused)
{
	(void)unused;
	reported_cpu = only_cpu();
	reported_policy = kernel_policy(0);
	sem_post(&reported_by_library);
}

static int wait_for_library(void)
{
	/* The caller is where it was. */
	if (only_cpu() != (int)cpus[0])
		return 3;
	while (sem_wait(&reported_by_library))
		;
	return reported_cpu == -1 && reported_policy == SCHED_OTHER ? 0 : 4;
}

static int use_timer(const char *more)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD,
				 .sigev_notify_function = report_by_library};
	const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	timer_t timer;

	limit_to(60);
	begin(more);
	sem_init(&reported_by_library, 0, 0);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
		return 2;
	return wait_for_library();
}

static int placed_timer(void)
{
	return use_timer("");
}

static int fifo_timer(void)
{
	return use_timer("rtfifo=3,");
}

static void need_library_threads(void)
{
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know the C library's threads\n");
	skip();
#endif
}

static void threads_of_timers_are_not_held_to_the_cpu_of_the_timers_creator(void **state)
{
	(void)state;
	need_two_cpus();
	need_library_threads();
	assert_int_equal(in_child(placed_timer), 0);
}

enum { NO_QUEUE = 77 };

static int use_queue(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD,
				 .sigev_notify_function = report_by_library};
	char name[64];

	limit_to(60);
	begin("");
	sem_init(&reported_by_library, 0, 0);
	snprintf(name, sizeof(name), "/tek-test-place-%d", (int)getpid());
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	if (queue == (mqd_t)-1)
		return NO_QUEUE;
	mq_unlink(name);
	if (mq_notify(queue, &event) || mq_send(queue, "", 1, 0))
		return 2;
	return wait_for_library();
}

static void threads_of_message_queues_are_not_held_to_it_either(void **state)
{
	(void)state;
	need_two_cpus();
	need_library_threads();
	int result = in_child(use_queue);
	if (result == NO_QUEUE) {
		print_message("# needs message queues\n");
		skip();
	}
	assert_int_equal(result, 0);
}

static int child_cpu(void)
{
	return only_cpu() == (int)cpus[1] && reported_by(report_cpu, NULL) == (int)cpus[0] ? 0 : 3;
}

static int deal_to_child(void)
{
	begin("");
	/* The child was dealt two CPUs. */
	return in_child(child_cpu) || reported_by(report_cpu, NULL) != (int)cpus[1];
}

static void the_child_of_a_fork_gets_the_next_cpu(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(deal_to_child), 0);
}

static int spawn_child(void)
{
	char script[128];

	begin("");
	/* Without TEK in it: it has the affinity of the process. */
	snprintf(script, sizeof(script),
		 "grep -q '^Cpus_allowed_list:[[:space:]]*%u$' /proc/self/status", cpus[0]);
	unsetenv("LD_PRELOAD");
	unsetenv("TEK_PLACE");
	return WEXITSTATUS(system(script)) != 1 || only_cpu() != (int)cpus[0];
}

static void what_is_spawned_may_run_everywhere(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(spawn_child), 0);
}

static int with_fifo(void)
{
	const int ours = 1000 + SCHED_FIFO * 100 + 3;
	const struct sched_param param = {.sched_priority = 5};
	pthread_attr_t attr;

	limit_to(60);
	begin("rtfifo=3,");
	if ((int)(intptr_t)report_policy(NULL) != ours || reported_by(report_policy, NULL) != ours)
		return 1;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_RR);
	pthread_attr_setschedparam(&attr, &param);
	return reported_by(report_policy, &attr) == SCHED_RR * 100 + 5 ? 0 : 2;
}

static int try_fifo(void)
{
	const struct sched_param param = {.sched_priority = 3};
	return syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param) != 0;
}

/* In a child, so that this process has neither a guard nor the policy. */
static void need_fifo(void)
{
	need_two_cpus();
	if (in_child(try_fifo)) {
		print_message("# needs CAP_SYS_NICE or RLIMIT_RTPRIO\n");
		skip();
	}
}

static void with_rtfifo_all_are_sched_fifo_but_those_with_a_policy_of_their_own(void **state)
{
	(void)state;
	need_fifo();
	assert_int_equal(in_child(with_fifo), 0);
}

static void with_rtfifo_threads_of_timers_run_as_ordinary_ones_on_all_cpus(void **state)
{
	(void)state;
	need_fifo();
	need_library_threads();
	assert_int_equal(in_child(fifo_timer), 0);
}

static int other_cpu, other_policy;

/* Reports its CPU and its policy after TEK has stood down. */
static void *wait_and_report(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&moment);
	pthread_barrier_wait(&moment);
	other_cpu = only_cpu();
	other_policy = kernel_policy(0);
	return NULL;
}

static int stand_down(const char *more)
{
	pthread_t thread;

	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin(more);
	pthread_barrier_init(&moment, NULL, 2);
	if (pthread_create(&thread, NULL, wait_and_report, NULL))
		return 3;
	pthread_barrier_wait(&moment);
	tek__confine("openat");
	pthread_barrier_wait(&moment);
	pthread_join(thread, NULL);
	if (only_cpu() != -1 || kernel_policy(0) != SCHED_OTHER)
		return 4;
	if (other_cpu != -1 || other_policy != SCHED_OTHER)
		return 5;
	return reported_by(report_cpu, NULL) != -1 ||
	       reported_by(report_policy, NULL) != SCHED_OTHER * 100;
}

static int stand_down_placed(void)
{
	return stand_down("");
}

static int stand_down_fifo(void)
{
	return stand_down("rtfifo=3,");
}

static void where_tek_stands_down_threads_are_what_they_were_without_it(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_placed), 0);
	need_fifo();
	assert_int_equal(in_child(stand_down_fifo), 0);
}

static void *(*late_routine)(void *);
static sem_t begins;

/* A thread that gets no CPU until TEK has stood down. */
static void *begin_late(void *argument)
{
	while (sem_wait(&begins))
		;
	return late_routine(argument);
}

static int (*create_at_once)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int create_late(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
		       void *argument)
{
	late_routine = routine;
	int error = create_at_once(handle, attr, begin_late, argument);
	tek__confine("openat");
	sem_post(&begins);
	return error;
}

static int stand_down_while_a_thread_starts(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin("");
	sem_init(&begins, 0, 0);
	create_at_once = tek__real.pthread_create;
	tek__real.pthread_create = create_late;
	return reported_by(report_cpu, NULL) == -1 ? 0 : 3;
}

static void a_thread_that_starts_while_tek_stands_down_may_run_everywhere(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_while_a_thread_starts), 0);
}

static int stand_down_moved(void)
{
	const struct tek_mask second = tek__mask_of(cpus[1]);

	if (!freopen("/dev/null", "w", stderr))
		return 2;
	begin("");
	if (move(pthread_self(), &second))
		return 3;
	tek__confine("openat");
	return only_cpu() != (int)cpus[1];
}

static void an_affinity_of_the_program_stays_where_tek_stands_down(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(stand_down_moved), 0);
}

static int critical_and_back(void)
{
	begin("rtfifo=3,");
	if (tek_critical_enter() || !is_fast(0) || reported_by(report_policy, NULL) != 1103 ||
	    tek_critical_leave())
		return 1;
	return (int)(intptr_t)report_policy(NULL) == 1103 ? 0 : 2;
}

static void a_thread_that_leaves_the_fast_region_is_sched_fifo_again(void **state)
{
	(void)state;
	need_fifo();
	assert_int_equal(in_child(critical_and_back), 0);
}

static int without_privilege(void)
{
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_RTPRIO, &none) ||
	    (geteuid() == 0 && (setgroups(0, NULL) || setuid(65534))))
		return 2;
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	begin("rtfifo,");
	return only_cpu() != (int)cpus[0] || reported_by(report_cpu, NULL) != (int)cpus[1] ||
	       reported_by(report_policy, NULL) != SCHED_OTHER * 100;
}

static void where_real_time_is_not_allowed_threads_keep_to_their_cpus_all_the_same(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(without_privilege), 0);
}

static int nowhere(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	setenv("TEK_PLACE", "cpus=1023", 1);
	tek__place_start();
	tek__place_main();
	return tek__place_is_on() || only_cpu() != -1 || reported_by(report_cpu, NULL) != -1;
}

static void of_cpus_that_the_process_may_not_use_none_is_dealt(void **state)
{
	(void)state;
	need_two_cpus();
	if (tek__mask_has(&allowed, 1023))
		skip();
	assert_int_equal(in_child(nowhere), 0);
}

static int next_program(void)
{
	tek__number_start();
	const unsigned int first = tek__number_next(), second = tek__number_next();
	tek__number_leave(first);
	return tek__number_of_program() != first || tek__number_of_program() != second + 1;
}

static void a_program_that_takes_the_place_of_another_goes_on_with_its_number(void **state)
{
	(void)state;
	assert_int_equal(in_child(next_program), 0);
}

static void pages_on_other_nodes_are_strangers(void **state)
{
	char memory[6];
	void *pages[6];
	const int status[6] = {0, 1, -ENOENT, 2, 1, -EFAULT};

	(void)state;
	for (int i = 0; i < 6; i++)
		pages[i] = &memory[i];
	assert_int_equal(tek__local_strangers(pages, status, 6, 1), 2);
	assert_ptr_equal(pages[0], &memory[0]);
	assert_ptr_equal(pages[1], &memory[3]);
	assert_int_equal(tek__local_strangers(pages, status, 0, 1), 0);
}

static void *return_to_cpus(void *right)
{
	volatile char stack[100000];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (char)(i / 7);
	errno = 77;
	tek__local_own_stack();
	*(bool *)right = errno == 77;
	for (size_t i = 0; i < sizeof(stack); i++)
		*(bool *)right &= stack[i] == (char)(i / 7);
	return NULL;
}

static void a_stack_that_becomes_local_is_as_it_was(void **state)
{
	pthread_t thread;
	bool right = false;

	(void)state;
	/* The second one has what the first one left. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, return_to_cpus, &right), 0);
		pthread_join(thread, NULL);
		assert_true(right);
	}
}

/* As tek writes it. */
static void write_placement(const struct tek_place_config *config, char *text, size_t size)
{
	int length = 0;

	if (config->fifo_priority)
		length = snprintf(text, size, "rtfifo=%u,", config->fifo_priority);
	length += snprintf(text + length, size - (size_t)length, "%scpus",
			   config->numa ? "numa," : "");
	for (unsigned int i = 0; i < config->count; i++)
		length += snprintf(text + length, size - (size_t)length, "%c%u", i ? ':' : '=',
				   config->cpus[i]);
}

static void check_placement(const struct vector *vector)
{
	struct tek_place_config config = {.count = 7};
	const bool option = vector_is(vector, "option");
	char text[256];

	if (vector_is(vector, "refused")) {
		vector_assert(vector, !tek__place_config_parse(&config, vector->words[1]));
		vector_assert(vector, config.count == 7);
		return;
	}
	vector_assert(vector, tek__place_config_parse(&config, vector->words[option ? 2 : 1]));
	write_placement(&config, text, sizeof(text));
	if (strcmp(text, vector->words[2]) != 0)
		vector_fail(vector, "it is %s", text);
}

static void the_variable_is_read_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("placement.txt", check_placement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_dealt_to_the_cpus_round_robin),
		cmocka_unit_test(a_thread_with_an_affinity_in_its_attributes_keeps_it),
		cmocka_unit_test(a_thread_that_chose_its_affinity_hands_it_down_as_without_tek),
		cmocka_unit_test(the_child_of_a_fork_stays_where_its_parent_chose_to_be),
		cmocka_unit_test(a_thread_that_sets_the_reported_affinity_goes_to_its_place),
		cmocka_unit_test(
			a_thread_with_its_creators_reported_affinity_as_attribute_is_dealt),
		cmocka_unit_test(a_thread_that_is_moved_by_another_thread_hands_that_down),
		cmocka_unit_test(a_thread_whose_cpu_is_gone_is_not_left_on_the_one_of_its_creator),
		cmocka_unit_test(a_program_that_counts_cpus_finds_all_that_it_may_use),
		cmocka_unit_test(threads_of_c11_are_dealt_too),
		cmocka_unit_test(threads_of_timers_are_not_held_to_the_cpu_of_the_timers_creator),
		cmocka_unit_test(threads_of_message_queues_are_not_held_to_it_either),
		cmocka_unit_test(the_child_of_a_fork_gets_the_next_cpu),
		cmocka_unit_test(what_is_spawned_may_run_everywhere),
		cmocka_unit_test(
			with_rtfifo_all_are_sched_fifo_but_those_with_a_policy_of_their_own),
		cmocka_unit_test(with_rtfifo_threads_of_timers_run_as_ordinary_ones_on_all_cpus),
		cmocka_unit_test(where_tek_stands_down_threads_are_what_they_were_without_it),
		cmocka_unit_test(an_affinity_of_the_program_stays_where_tek_stands_down),
		cmocka_unit_test(a_thread_that_starts_while_tek_stands_down_may_run_everywhere),
		cmocka_unit_test(a_thread_that_leaves_the_fast_region_is_sched_fifo_again),
		cmocka_unit_test(
			where_real_time_is_not_allowed_threads_keep_to_their_cpus_all_the_same),
		cmocka_unit_test(of_cpus_that_the_process_may_not_use_none_is_dealt),
		cmocka_unit_test(a_program_that_takes_the_place_of_another_goes_on_with_its_number),
		cmocka_unit_test(pages_on_other_nodes_are_strangers),
		cmocka_unit_test(a_stack_that_becomes_local_is_as_it_was),
		cmocka_unit_test(the_variable_is_read_as_tek_does),
	};
	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
