/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait for one file: other threads go on, and the calls keep their meaning. */
#include "blocking_calls.h"
#include "patience.h"

#include <pty.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <termios.h>

/* A reader waits; what comes at `from` it gets. */
static void expect_read(int file, int from, ssize_t (*make)(struct call *))
{
	char bytes[16] = {0};
	struct call call = {.make = make, .file = file, .bytes = bytes, .size = sizeof(bytes)};

	begin_and_see_it_wait(&call);
	send_bytes(from, "12345678", 8);
	assert_int_equal(end(&call), 8);
	assert_memory_equal(bytes, "12345678", 8);
}

static void a_read_waits_while_other_threads_go_on(void **state)
{
	(void)state;
	ssize_t (*const reads[])(struct call *) = {call_read, call_readv};
	for (int i = 0; i < 2; i++) {
		int file[2];
		make_pipe(file);
		expect_read(file[0], file[1], reads[i]);
		close_pair(file);
		make_sockets(file, SOCK_STREAM);
		expect_read(file[0], file[1], reads[i]);
		close_pair(file);
		make_sockets(file, SOCK_DGRAM);
		expect_read(file[0], file[1], reads[i]);
		close_pair(file);
	}
}

static void an_eventfd_and_a_timer_are_read_while_other_threads_go_on(void **state)
{
	(void)state;
	uint64_t value = 0;
	int event = eventfd(0, EFD_CLOEXEC);
	struct call call = {.make = call_read, .file = event, .bytes = (char *)&value, .size = 8};

	begin_and_see_it_wait(&call);
	assert_int_equal(eventfd_write(event, 5), 0);
	assert_int_equal(end(&call), 8);
	assert_int_equal(value, 5);
	close(event);

	call.file = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	const struct itimerspec time = {.it_value.tv_nsec = 150 * MS};
	const uint64_t begun = now_ns();
	assert_int_equal(timerfd_settime(call.file, 0, &time, NULL), 0);
	begin_and_see_it_wait_until(&call, begun, 150 * MS);
	assert_int_equal(end(&call), 8);
	assert_int_equal(value, 1);
	close(call.file);
}

static void a_terminal_is_read_by_its_own_rules(void **state)
{
	(void)state;
	int controller, terminal;
	struct termios settings;
	char bytes[16];
	struct call call = {.make = call_read, .bytes = bytes, .size = sizeof(bytes)};

	assert_int_equal(openpty(&controller, &terminal, NULL, NULL, NULL), 0);
	call.file = terminal;
	begin_and_see_it_wait(&call);
	send_bytes(controller, "ab\ncd", 5);
	assert_int_equal(end(&call), 3); /* a line */

	tcgetattr(terminal, &settings);
	settings.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	settings.c_cc[VMIN] = 0;
	settings.c_cc[VTIME] = 1;
	tcsetattr(terminal, TCSAFLUSH, &settings);
	begin(&call);
	assert_int_equal(end(&call), 0); /* nothing for a tenth of a second */
	assert_in_range(call.ns, 90 * MS, 2000 * MS);

	settings.c_cc[VMIN] = 4;
	settings.c_cc[VTIME] = 0;
	tcsetattr(terminal, TCSAFLUSH, &settings);
	begin_and_see_it_wait(&call);
	send_bytes(controller, "abc", 3);
	sleep_ms(20);
	assert_false(call.done);
	send_bytes(controller, "d", 1);
	assert_int_equal(end(&call), 4);
	close(controller);
	close(terminal);
}

static void a_write_returns_when_all_is_written(void **state)
{
	(void)state;
	ssize_t (*const writes[])(struct call *) = {call_write, call_writev, call_send};
	static char bytes[MUCH];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 2654435761u >> 24);
	for (int i = 0; i < 5; i++) {
		int file[2];
		if (i % 2 || i == 4)
			make_sockets(file, SOCK_STREAM);
		else
			make_pipe(file);
		struct call call = {
			.make = writes[i / 2], .file = file[1], .bytes = bytes, .size = MUCH};
		begin_and_see_it_wait(&call);
		read_slowly(file[0], bytes, MUCH);
		assert_int_equal(end(&call), MUCH);
		close_pair(file);
	}
}

static void a_write_whose_reader_goes_away_returns_how_much_went(void **state)
{
	(void)state;
	static char bytes[MUCH];
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 2; i++) {
		int file[2];
		if (i)
			make_sockets(file, SOCK_STREAM);
		else
			make_pipe(file);
		struct call call = {
			.make = call_write, .file = file[1], .bytes = bytes, .size = MUCH};
		begin_and_see_it_wait(&call);
		close(file[0]);
		assert_in_range(end(&call), 1, MUCH - 1);
		begin(&call);
		assert_fails(&call, EPIPE);
		close(file[1]);
	}
	signal(SIGPIPE, SIG_DFL);
}

static void a_regular_file_is_read_to_its_end(void **state)
{
	(void)state;
	char bytes[64];
	struct call call = {.make = call_write, .file = -1, .bytes = bytes, .size = sizeof(bytes)};
	char name[] = "/tmp/tek-blocking-XXXXXX";

	memset(bytes, 'x', sizeof(bytes));
	call.file = mkostemp(name, O_CLOEXEC);
	unlink(name);
	begin(&call);
	assert_int_equal(end(&call), 64);
	lseek(call.file, 10, SEEK_SET);
	call.make = call_readv;
	begin(&call);
	assert_int_equal(end(&call), 54);
	call.make = call_read;
	begin(&call);
	assert_int_equal(end(&call), 0);
	close(call.file);
	/* Neither stored nor a socket, and always ready. */
	call.file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	begin(&call);
	assert_int_equal(end(&call), 64);
	close(call.file);
}

static void many_threads_wait_for_a_file_each(void **state)
{
	(void)state;
	enum { MOST = 5000 };
	static struct call calls[MOST];
	static int files[MOST][2];
	static char bytes[MOST];
	struct rlimit limit;
	pthread_attr_t attr;
	unsigned int count = is_preloaded() ? MOST : 500;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < 2 * count + 100)
		count = (unsigned int)(limit.rlim_cur - 100) / 2;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (unsigned int i = 0; i < count; i++) {
		make_sockets(files[i], SOCK_STREAM);
		calls[i] = (struct call){
			.make = call_read, .file = files[i][0], .bytes = &bytes[i], .size = 1};
		assert_int_equal(pthread_create(&calls[i].thread, &attr, make_call, &calls[i]), 0);
	}
	sleep_ms(50);
	for (unsigned int i = 0; i < count; i++) {
		char byte = (char)i;
		assert_false(calls[i].done);
		send_bytes(files[i][1], &byte, 1);
	}
	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(end(&calls[i]), 1);
		assert_int_equal(bytes[i], (char)i);
		close_pair(files[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_waits_while_other_threads_go_on),
		cmocka_unit_test(an_eventfd_and_a_timer_are_read_while_other_threads_go_on),
		cmocka_unit_test(a_terminal_is_read_by_its_own_rules),
		cmocka_unit_test(a_write_returns_when_all_is_written),
		cmocka_unit_test(a_write_whose_reader_goes_away_returns_how_much_went),
		cmocka_unit_test(a_regular_file_is_read_to_its_end),
		cmocka_unit_test(many_threads_wait_for_a_file_each),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
