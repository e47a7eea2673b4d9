/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that the C library makes run on all CPUs, as ordinary ones. */
#include "patience.h"
#include "place_support.h"

#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

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

static void with_rtfifo_threads_of_timers_run_as_ordinary_ones_on_all_cpus(void **state)
{
	(void)state;
	need_fifo();
	need_library_threads();
	assert_int_equal(in_child(fifo_timer), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_timers_are_not_held_to_the_cpu_of_the_timers_creator),
		cmocka_unit_test(threads_of_message_queues_are_not_held_to_it_either),
		cmocka_unit_test(with_rtfifo_threads_of_timers_run_as_ordinary_ones_on_all_cpus),
	};
	return cmocka_run_group_tests_name("place_library", tests, NULL, NULL);
}
