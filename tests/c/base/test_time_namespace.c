/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes in different time namespaces agree on start times. */
#include "patience.h"
#include "support.h"

#include "base/clock.h"
#include "base/time_namespace.h"
#include "threads/attributes.h"

#include <fcntl.h>
#include <signal.h>

enum { NEW_TIME = 0x80 }; /* CLONE_NEWTIME, which older headers lack */

/* Not multiples of a clock tick. */
#define MONOTONIC_NS (INT64_C(5000) * 1000000000 + 3000000)
#define BOOTTIME_NS (INT64_C(100000) * 1000000000 + 7000000)
static const char offsets_text[] = "monotonic 5000 3000000\nboottime 100000 7000000\n";

/* A process in a time namespace, and what it found there. */
struct inside {
	pid_t pid;
	bool known_before; /* the offsets, by the maker of the namespace, which is outside */
	bool known;
	struct tek_time_offsets offsets;
	uint64_t own_start_ns, outer_start_ns;
	int error; /* of setting its role */
};

static bool make_namespace(void)
{
	if (unshare(NEW_TIME))
		return false;
	int fd = open("/proc/self/timens_offsets", O_WRONLY);
	bool made = fd >= 0 && write(fd, offsets_text, strlen(offsets_text)) > 0;
	close(fd);
	return made;
}

static void examine(struct inside *inside, pid_t outer)
{
	const struct tek_attributes attributes = {.role = "clock"};

	inside->pid = getpid();
	inside->known = tek__time_offsets(&inside->offsets);
	inside->own_start_ns = tek__start_ns(getpid(), &inside->offsets);
	inside->outer_start_ns = tek__start_ns(outer, &inside->offsets);
	inside->error = tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE, &attributes);
}

/* Makes a namespace and has a child there, which waits until it is killed. */
static _Noreturn void run_inside(pid_t outer, int to)
{
	struct inside inside = {0};
	struct tek_time_offsets offsets;

	if (!make_namespace())
		_exit(1);
	inside.known_before = tek__time_offsets(&offsets);
	if (fork())
		_exit(0);
	limit_to(60);
	examine(&inside, outer);
	if (write(to, &inside, sizeof(inside)) == sizeof(inside))
		pause();
	_exit(1);
}

static struct inside start_inside(void)
{
	struct inside inside;
	const pid_t outer = getpid();
	int ends[2], status;

	assert_int_equal(pipe(ends), 0);
	pid_t between = fork();
	if (between == 0)
		run_inside(outer, ends[1]);
	assert_int_equal(waitpid(between, &status, 0), between);
	if (status) {
		print_message("# needs root, and a kernel with time namespaces\n");
		skip();
	}
	close(ends[1]); /* so that reading ends if the process inside does */
	assert_int_equal(read(ends[0], &inside, sizeof(inside)), sizeof(inside));
	close(ends[0]);
	return inside;
}

static void a_process_inside_knows_its_offsets(void **state)
{
	struct inside inside = start_inside();

	(void)state;
	kill(inside.pid, SIGKILL);
	assert_false(inside.known_before);
	assert_true(inside.known);
	assert_int_equal(inside.offsets.monotonic_ns, MONOTONIC_NS);
	assert_int_equal(inside.offsets.boottime_ns, BOOTTIME_NS);
}

static void processes_inside_and_outside_read_the_same_start_times(void **state)
{
	struct inside inside = start_inside();
	struct tek_time_offsets offsets;

	(void)state;
	assert_true(tek__time_offsets(&offsets));
	uint64_t inner = tek__start_ns(inside.pid, &offsets);
	uint64_t outer = tek__start_ns(getpid(), &offsets);
	kill(inside.pid, SIGKILL);
	assert_true(tek__is_same_start(inner, inside.own_start_ns));
	assert_true(tek__is_same_start(outer, inside.outer_start_ns));
	assert_false(tek__is_same_start(outer, outer + TEK_NS_PER_SEC));
}

static void the_attributes_of_a_thread_inside_are_read_from_outside(void **state)
{
	struct tek_attributes attributes;
	uint64_t before = tek__now(CLOCK_BOOTTIME);
	struct inside inside = start_inside();

	(void)state;
	assert_int_equal(inside.error, 0);
	int error = tek_tid_get_attributes(inside.pid, &attributes);
	kill(inside.pid, SIGKILL);
	assert_int_equal(error, 0);
	assert_string_equal(attributes.role, "clock");
	/* By the clock of the reader. */
	assert_true(attributes.created_ns >= before);
	assert_true(attributes.created_ns <= tek__now(CLOCK_BOOTTIME));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_inside_knows_its_offsets),
		cmocka_unit_test(processes_inside_and_outside_read_the_same_start_times),
		cmocka_unit_test(the_attributes_of_a_thread_inside_are_read_from_outside),
	};
	return cmocka_run_group_tests_name("time_namespace", tests, NULL, NULL);
}
