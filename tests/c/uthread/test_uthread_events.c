/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for files, without an engine.  The waiters are kernel threads, for which tek_ut__wait()
 * is a futex, and another thread acts as the idle workers do.
 */
#include "patience.h"
#include "support.h"

#include "base/clock.h"
#include "uthread/events.h"
#include "uthread/hidden.h"
#include "uthread/spin.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define SOON_NS 50000000ull

static pthread_t worker;
static atomic_bool stopped;
static atomic_bool to_pause, is_paused;
static atomic_uint waits; /* that it has ended */

static void *poll_events(void *unused)
{
	(void)unused;
	for (; !stopped; waits++) {
		tek_ut__events_run(UINT64_MAX);
		for (; to_pause; sleep_ms(1))
			is_paused = true;
		is_paused = false;
	}
	return NULL;
}

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

static int start_worker(void **state)
{
	(void)state;
	atomic_store(&tek_ut__parallel_now, true);
	if (tek_ut__events_start())
		return -1;
	return pthread_create(&worker, NULL, poll_events, NULL);
}

static int stop_worker(void **state)
{
	(void)state;
	stopped = true;
	tek_ut__events_stop_waiting();
	return pthread_join(worker, NULL);
}

static struct timespec in_ns(uint64_t ns)
{
	return tek__timespec_of(tek__now(CLOCK_MONOTONIC) + ns);
}

/* A thread that waits for a descriptor, and reads a byte of it if `takes` is set. */
struct reader {
	pthread_t thread;
	int file;
	short events;
	bool takes;
	uint64_t limit_ns; /* 0: none */
	atomic_int tid;    /* 0: not begun */
	atomic_int result; /* 1: not yet */
	unsigned int examinations;
};

static void *read_when_ready(void *argument)
{
	struct reader *reader = argument;
	struct timespec deadline = in_ns(reader->limit_ns);
	int result;
	char byte;

	reader->tid = own_tid();
	do {
		reader->examinations++;
		result = tek_ut__events_wait(reader->file, reader->events,
					     reader->limit_ns ? &deadline : NULL);
	} while (result == 0 && reader->takes && recv(reader->file, &byte, 1, MSG_DONTWAIT) < 0 &&
		 errno == EAGAIN);
	reader->result = result;
	return NULL;
}

static void start_reader(struct reader *reader)
{
	reader->result = 1;
	assert_int_equal(pthread_create(&reader->thread, NULL, read_when_ready, reader), 0);
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

static int end_of(struct reader *reader)
{
	pthread_join(reader->thread, NULL);
	return reader->result;
}

static int ended(const struct reader *readers, int count)
{
	int sum = 0;
	for (int i = 0; i < count; i++)
		sum += readers[i].result != 1;
	return sum;
}

static void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(const int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

static void send_bytes(int file, size_t count)
{
	char bytes[64] = {0};
	assert_int_equal(write(file, bytes, count), count);
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

/* As in a program with the preload object's close(). */
static void close_well(int file)
{
	tek_ut__events_closing(file);
	close(file);
	tek_ut__events_closed(file);
}

static void a_thread_that_waits_for_a_file_that_is_closed_is_woken(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN};
	int pair[2];

	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	sleep_ms(20);
	close_well(pair[0]);
	assert_int_equal(end_of(&reader), 0);
	close(pair[1]);
}

/* The C library closes files without a call of the engine, and their numbers are reused. */
static void a_number_that_is_another_file_by_now_can_be_waited_for(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		struct reader reader = {.events = POLLIN, .limit_ns = round % 2 ? 0 : 1};
		int pair[2], copy = -1;

		make_pair(pair);
		reader.file = pair[0];
		start_reader(&reader);
		if (reader.limit_ns == 0)
			send_bytes(pair[1], 1);
		end_of(&reader);
		/* The old file goes on under another number: what the set remembers of it stays. */
		if (round % 3 == 0)
			copy = dup(pair[0]);
		close_pair(pair);
		if (copy >= 0)
			close(copy);
	}
}

static void an_event_of_the_old_file_does_not_harm_the_new_one(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN, .limit_ns = 1};
	int old[2], new[2];

	make_pair(old);
	make_pair(new);
	reader.file = old[0];
	start_reader(&reader);
	end_of(&reader); /* waits no more, but the set remembers it */
	int copy = dup(old[0]);
	assert_int_equal(dup2(new[0], old[0]), old[0]);
	reader = (struct reader){.file = old[0], .events = POLLIN, .takes = true};
	start_reader(&reader);
	sleep_ms(20);
	send_bytes(old[1], 1); /* an event of the number, for the wrong file */
	sleep_ms(20);
	assert_int_equal(reader.result, 1);
	send_bytes(new[1], 1);
	assert_int_equal(end_of(&reader), 0);
	close(copy);
	close_pair(old);
	close_pair(new);
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

static void poll_of_a_closed_file_reports_it(void **state)
{
	(void)state;
	struct pollfd file = {.fd = 999, .events = POLLIN};

	assert_int_equal(tek_ut__events_poll(&file, 1, NULL), 1);
	assert_int_equal(file.revents, POLLNVAL);
}

static void the_engines_own_files_give_way_to_the_programs(void **state)
{
	(void)state;
	struct reader reader = {.events = POLLIN};
	int own = tek_ut__hidden_next(0), pair[2];

	raise_limit_of_descriptors(); /* the engine's may be beyond it */
	make_pair(pair);
	reader.file = pair[0];
	start_reader(&reader);
	sleep_ms(20);
	for (int i = 0; i < 4; i++) {
		own = tek_ut__hidden_next(i < 2 ? 0 : own);
		assert_true(own >= 0 && tek_ut__hidden_is(own));
		assert_true(tek_ut__hidden_move(own));
		assert_false(tek_ut__hidden_is(own));
		assert_int_equal(dup2(pair[1], own), own);
	}
	send_bytes(pair[1], 1);
	assert_int_equal(end_of(&reader), 0);
	close_pair(pair);
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

/* Threads that wait, files that come and go, and numbers that mean something else each time. */
static void nothing_is_lost_when_files_come_and_go(void **state)
{
	(void)state;
	enum { THREADS = 8, ROUNDS = 300 };
	for (int round = 0; round < ROUNDS / THREADS; round++) {
		struct reader readers[THREADS];
		int pairs[THREADS / 2][2];

		for (int i = 0; i < THREADS; i++) {
			if (i % 2 == 0)
				make_pair(pairs[i / 2]);
			readers[i] = (struct reader){
				.file = pairs[i / 2][0], .events = POLLIN, .takes = true};
			start_reader(&readers[i]);
		}
		for (int i = 0; i < THREADS / 2; i++)
			send_bytes(pairs[i][1], round % 2 ? 2 : 1);
		for (int i = 0; i < THREADS / 2 && round % 2 == 0; i++)
			send_bytes(pairs[i][1], 1);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(end_of(&readers[i]), 0);
		for (int i = 0; i < THREADS / 2; i++)
			close_pair(pairs[i]);
	}
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
		cmocka_unit_test(a_thread_that_waits_for_a_file_that_is_closed_is_woken),
		cmocka_unit_test(a_number_that_is_another_file_by_now_can_be_waited_for),
		cmocka_unit_test(an_event_of_the_old_file_does_not_harm_the_new_one),
		cmocka_unit_test(poll_reports_which_of_many_are_ready),
		cmocka_unit_test(poll_of_a_closed_file_reports_it),
		cmocka_unit_test(the_engines_own_files_give_way_to_the_programs),
		cmocka_unit_test(a_thread_that_only_polls_does_not_keep_the_one_that_waits_waiting),
		cmocka_unit_test(only_one_at_a_time_is_about_to_take),
		cmocka_unit_test(the_child_of_a_fork_waits_on_its_own),
		cmocka_unit_test(nothing_is_lost_when_files_come_and_go),
	};
	limit_to(60);
	return cmocka_run_group_tests(tests, start_worker, stop_worker);
}
