/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files that are closed while threads wait for them, and numbers that become other files. */
#include "events_support.h"
#include "patience.h"

#include "uthread/hidden.h"

#include <errno.h>
#include <poll.h>

static void a_thread_that_waits_for_a_file_that_is_closed_is_woken(void **state)
{
	(void)state;
	int error = -EBADF;

	/* Beside load it may not wait yet when the file is closed. */
	for (int round = 0; round < 20 && error == -EBADF; round++) {
		struct reader reader = {.events = POLLIN};
		int pair[2];

		make_pair(pair);
		reader.file = pair[0];
		start_reader(&reader);
		sleep_ms(20);
		close_well(pair[0]);
		error = end_of(&reader);
		close(pair[1]);
	}
	assert_int_equal(error, 0);
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
		cmocka_unit_test(a_thread_that_waits_for_a_file_that_is_closed_is_woken),
		cmocka_unit_test(a_number_that_is_another_file_by_now_can_be_waited_for),
		cmocka_unit_test(an_event_of_the_old_file_does_not_harm_the_new_one),
		cmocka_unit_test(poll_of_a_closed_file_reports_it),
		cmocka_unit_test(the_engines_own_files_give_way_to_the_programs),
		cmocka_unit_test(nothing_is_lost_when_files_come_and_go),
	};
	limit_to(60);
	return cmocka_run_group_tests(tests, start_worker, stop_worker);
}
