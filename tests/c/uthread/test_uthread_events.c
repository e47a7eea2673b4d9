/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for files, without an engine.  The waiters are kernel threads, for which tek_ut__wait()
 * is a futex, and another thread acts as the idle workers do.
 */
#include "events_support.h"
#include "patience.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#define SOON_NS 50000000ull

/* The test polls itself meanwhile. */
static void pause_worker(void)
{
	to_pause = true;
	for (; !is_paused; sleep_ms(1))
		tek_ut__events_stop_waiting();
}

static void resume_worker(void)
{
	to_pause = false;
	while (is_paused)
		sleep_ms(1);
}

/* The letter of proc(5). */
static char kernel_state(pid_t tid)
{
	char path[64], text[256] = {0};

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	const char *end = strrchr(text, ')');
	assert_non_null(end);
	return end[2];
}

static void start_reader_and_let_it_wait(struct reader *reader)
{
	start_reader(reader);
	while (!reader->tid || !tek_ut__events_any() || kernel_state(reader->tid) != 'S')
		sleep_ms(1);
}

static int ended(const struct reader *readers, int count)
{
	int sum = 0;
	for (int i = 0; i < count; i++)
		sum += readers[i].result != 1;
	return sum;
}

static void a_thread_waits_until_its_file_is_ready(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN};
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	for (int tries = 0; !tek_ut__events_any() && tries < 10000; tries++)
		sleep_ms(1);
	assert_true(tek_ut__events_any());
	assert_int_equal(reader.result, 1);
	send_bytes(pair[1], 1);
	assert_int_equal(end_of(&reader), 0);
	assert_false(tek_ut__events_any());
	close_pair(pair);
}

static void a_file_that_is_ready_already_is_not_waited_for(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLOUT};
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	assert_int_equal(end_of(&reader), 0);
	close_pair(pair);
}

static void a_wait_ends_at_its_deadline_and_not_before(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN, .limit_ns = SOON_NS};
	uint64_t before = tek__now(CLOCK_MONOTONIC);
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	assert_int_equal(end_of(&reader), -ETIMEDOUT);
	assert_true(tek__now(CLOCK_MONOTONIC) - before >= SOON_NS);
	close_pair(pair);
}

static void what_came_for_a_wait_that_is_over_is_there_for_the_next_one(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN, .limit_ns = 1};
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	assert_int_equal(end_of(&reader), -ETIMEDOUT);
	send_bytes(pair[1], 1);
	sleep_ms(5); /* the event finds no waiter */
	reader.limit_ns = 0;
	start_reader(&reader);
	assert_int_equal(end_of(&reader), 0);
	close_pair(pair);
}

static void of_several_readers_each_gets_what_it_waits_for(void **state)
{
	(void)state;
	struct reader readers[5] = {0};
	int pair[2];

	make_pair(pair);
	for (int i = 0; i < 5; i++) {
		readers[i] = (struct reader){.file = pair[0], .events = POLLIN, .takes = true};
		start_reader(&readers[i]);
	}
	sleep_ms(20);
	for (int i = 0; i < 5; i++)
		send_bytes(pair[1], 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(end_of(&readers[i]), 0);
	close_pair(pair);
}

static void one_message_wakes_one_of_those_that_would_take_it(void **state)
{
	(void)state;
	struct reader readers[20] = {0};
	int pair[2];

	make_pair(pair);
	pause_worker(); /* a slow reader would see the next one woken for the same byte */
	for (int i = 0; i < 20; i++) {
		readers[i] = (struct reader){.file = pair[0], .events = POLLIN, .takes = true};
		start_reader_and_let_it_wait(&readers[i]);
	}
	for (int i = 0; i < 20; i++) {
		send_bytes(pair[1], 1);
		tek_ut__events_run(0);
		while (ended(readers, 20) <= i)
			sleep_ms(1);
		assert_int_equal(ended(readers, 20), i + 1);
	}
	resume_worker();
	for (int i = 0; i < 20; i++) {
		assert_int_equal(end_of(&readers[i]), 0);
		assert_int_equal(readers[i].examinations, 1);
	}
	close_pair(pair);
}

static void a_reader_and_a_writer_of_one_file_are_woken_apart(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN}, writer = {.events = POLLOUT};
	char much[4096] = {0};
	int pair[2];

	make_pair(pair);
	while (send(pair[0], much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	reader.file = writer.file = pair[0];
	start_reader(&reader);
	start_reader(&writer);
	sleep_ms(20);
	assert_int_equal(reader.result, 1);
	assert_int_equal(writer.result, 1);
	while (recv(pair[1], much, sizeof(much), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(end_of(&writer), 0);
	sleep_ms(5);
	assert_int_equal(reader.result, 1);
	send_bytes(pair[1], 1);
	assert_int_equal(end_of(&reader), 0);
	close_pair(pair);
}

static void a_regular_file_cannot_be_waited_for(void **state)
{
	(void)state;
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(tek_ut__events_wait(file, POLLIN, NULL), -EPERM);
	close(file);
	assert_int_equal(tek_ut__events_wait(file, POLLIN, NULL), -EBADF);
	assert_int_equal(tek_ut__events_wait(-1, POLLIN, NULL), -EBADF);
}

static void poll_reports_which_of_many_are_ready(void **state)
{
	(void)state;
	enum { COUNT = 100 };
	struct pollfd files[COUNT + 2];
	int pairs[COUNT][2];

	for (int i = 0; i < COUNT; i++) {
		make_pair(pairs[i]);
		files[i] = (struct pollfd){.fd = pairs[i][0], .events = POLLIN};
	}
	files[COUNT] = (struct pollfd){.fd = -1, .events = POLLIN};
	files[COUNT + 1] = files[7]; /* twice */

	struct timespec deadline = in_ns(SOON_NS);
	assert_int_equal(tek_ut__events_poll(files, COUNT + 2, &deadline), 0);
	struct reader other = {.file = pairs[7][0], .events = POLLIN};
	start_reader(&other); /* a waiter that reads does not hinder a poll */
	for (int ready = 0; ready < COUNT; ready += 7) {
		send_bytes(pairs[ready][1], 1);
		assert_int_equal(tek_ut__events_poll(files, COUNT + 2, NULL), ready == 7 ? 2 : 1);
		assert_int_equal(files[ready].revents, POLLIN);
		char byte;
		assert_int_equal(read(pairs[ready][0], &byte, 1), 1);
	}
	send_bytes(pairs[7][1], 1); /* the byte before may have been read before it polled */
	assert_int_equal(end_of(&other), 0);
	for (int i = 0; i < COUNT; i++)
		close_pair(pairs[i]);
	assert_false(tek_ut__events_any());
}

/* Ticks of other workers poll all the time. */
static void a_thread_that_only_polls_does_not_keep_the_one_that_waits_waiting(void **state)
{
	(void)state;
	for (int round = 0; round < 2000; round++) {
		unsigned int before = waits;
		tek_ut__events_stop_waiting();
		for (int examinations = 0; waits == before; examinations++) {
			if (examinations < 10)
				tek_ut__events_run(0);
			else
				sched_yield();
		}
	}
}

static void only_one_at_a_time_is_about_to_take(void **state)
{
	(void)state;
	int file = eventfd(0, EFD_CLOEXEC);

	assert_true(tek_ut__events_claim(file));
	assert_false(tek_ut__events_claim(file));
	tek_ut__events_disclaim(file);
	assert_true(tek_ut__events_claim(file));
	close_well(file);
}

static int wait_in_child(void)
{
	struct timespec deadline = in_ns(1);
	int file = eventfd(1, EFD_CLOEXEC);

	tek_ut__events_after_fork();
	if (tek_ut__events_any() || tek_ut__events_wait(file, POLLIN, &deadline) != -ETIMEDOUT)
		return 1; /* no thread polls */
	tek_ut__events_run(0);
	pthread_t again;
	struct reader reader = {.file = file, .events = POLLIN};
	stopped = false;
	pthread_create(&again, NULL, poll_events, NULL);
	read_when_ready(&reader);
	return reader.result;
}

static void the_child_of_a_fork_waits_on_its_own(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN};
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	/* Beside a sanitizer that is just starting a thread a child may hang. */
	start_reader_and_let_it_wait(&reader);
	assert_int_equal(in_child(wait_in_child), 0);
	assert_int_equal(reader.result, 1);
	send_bytes(pair[1], 1);
	assert_int_equal(end_of(&reader), 0);
	close_pair(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_waits_until_its_file_is_ready),
		cmocka_unit_test(a_file_that_is_ready_already_is_not_waited_for),
		cmocka_unit_test(a_wait_ends_at_its_deadline_and_not_before),
		cmocka_unit_test(what_came_for_a_wait_that_is_over_is_there_for_the_next_one),
		cmocka_unit_test(of_several_readers_each_gets_what_it_waits_for),
		cmocka_unit_test(one_message_wakes_one_of_those_that_would_take_it),
		cmocka_unit_test(a_reader_and_a_writer_of_one_file_are_woken_apart),
		cmocka_unit_test(a_regular_file_cannot_be_waited_for),
		cmocka_unit_test(poll_reports_which_of_many_are_ready),
		cmocka_unit_test(a_thread_that_only_polls_does_not_keep_the_one_that_waits_waiting),
		cmocka_unit_test(only_one_at_a_time_is_about_to_take),
		cmocka_unit_test(the_child_of_a_fork_waits_on_its_own),
	};
	limit_to(60);
	return cmocka_run_group_tests(tests, start_worker, stop_worker);
}
