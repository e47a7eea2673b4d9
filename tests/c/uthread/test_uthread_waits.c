/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait for several files, a time or a child. */
#include "blocking_calls.h"
#include "patience.h"

#include <sys/wait.h>

static make_function *const polls[] = {call_poll,    call_ppoll,      call_select,
				       call_pselect, call_epoll_wait, call_epoll_pwait2};
#define POLLS 6

static void a_thread_that_waits_for_several_files_lets_other_ones_go_on(void **state)
{
	(void)state;
	for (int i = 0; i < POLLS; i++) {
		int file[2], other[2];
		make_pipe(file);
		make_sockets(other, SOCK_STREAM);
		struct call call = {.make = polls[i], .file = file[0], .other = other[0]};
		begin_and_see_it_wait(&call);
		send_bytes(file[1], "x", 1);
		assert_int_equal(end(&call), 1);
		begin(&call); /* at once */
		assert_int_equal(end(&call), 1);
		close_pair(file);
		close_pair(other);
	}
}

static void a_time_limit_ends_the_wait_and_not_before(void **state)
{
	(void)state;
	for (int i = 0; i < POLLS; i++) {
		int file[2], other[2];
		make_pipe(file);
		make_pipe(other);
		struct call call = {
			.make = polls[i], .file = file[0], .other = other[0], .size = 150};
		begin_and_see_it_wait_until(&call, now_ns(), 145 * MS);
		assert_int_equal(end(&call), 0);
		assert_in_range(call.ns, 150 * MS, 2000 * MS);
		close_pair(file);
		close_pair(other);
	}
}

/* The kernel reports it to every poller; but it is no event that select(2) waits for. */
static ssize_t call_select_for_exceptions(struct call *call)
{
	struct timeval time = {.tv_usec = 150000};
	fd_set exceptions;

	FD_ZERO(&exceptions);
	FD_SET(call->file, &exceptions);
	return select(call->file + 1, NULL, NULL, &exceptions, &time);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void a_file_that_was_hung_up_is_no_exception(void **state)
{
	(void)state;
	int file[2];
	uint64_t ran = UINT64_MAX;

	make_pipe(file);
	close(file[1]);
	struct call call = {.make = call_select_for_exceptions, .file = file[0]};
	/* Time that a hypervisor takes counts as if the process had run. */
	for (int attempt = 0; attempt < 10 && ran >= 75 * MS; attempt++) {
		ran = cpu_ns();
		begin(&call);
		assert_int_equal(end(&call), 0);
		ran = cpu_ns() - ran;
		assert_in_range(call.ns, 145 * MS, 2000 * MS);
	}
	assert_true(ran < 75 * MS); /* it slept */
	close(file[0]);
}

static ssize_t call_clock_nanosleep(struct call *call)
{
	struct timespec time;

	clock_gettime(call->file, &time);
	time.tv_nsec += (long)call->size * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return clock_nanosleep(call->file, TIMER_ABSTIME, &time, NULL);
}

static ssize_t call_sleep(struct call *call)
{
	return sleep((unsigned int)call->size / 1000);
}

static void a_thread_that_sleeps_lets_other_ones_go_on_and_sleeps_long_enough(void **state)
{
	(void)state;
	const struct call sleeps[] = {
		{.make = call_nanosleep, .size = 150},
		{.make = call_usleep, .size = 150},
		{.make = call_clock_nanosleep, .size = 150, .file = CLOCK_MONOTONIC},
		{.make = call_clock_nanosleep, .size = 150, .file = CLOCK_REALTIME},
		{.make = call_clock_nanosleep, .size = 150, .file = CLOCK_BOOTTIME},
		{.make = call_sleep, .size = 1000},
	};
	for (size_t i = 0; i < sizeof(sleeps) / sizeof(*sleeps); i++) {
		struct call call = sleeps[i];
		begin_and_see_it_wait_until(&call, now_ns(), (call.size - 1) * MS);
		assert_int_equal(end(&call), 0);
		assert_in_range(call.ns, (call.size - 1) * MS, (call.size + 1900) * MS);
	}
}

static void what_is_no_time_is_not_slept(void **state)
{
	(void)state;
	const struct timespec none = {0, 1000000000}, negative = {-1, 0};

	assert_int_equal(nanosleep(&none, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(clock_nanosleep(CLOCK_MONOTONIC, 0, &negative, NULL), EINVAL);
	assert_int_equal(ppoll(NULL, 0, &none, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(poll(NULL, 0, 10), 0);
}

/* A child that ends with 7 when it has slept. */
static pid_t child_that_ends_after(unsigned int ms)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		sleep_ms(ms);
		_exit(7);
	}
	return child;
}

static ssize_t call_waitpid(struct call *call)
{
	int status = 0;
	ssize_t found = waitpid(call->file, &status, 0);
	call->other = WEXITSTATUS(status);
	return found;
}

static ssize_t call_waitid(struct call *call)
{
	siginfo_t info = {0};
	int result = waitid(P_PID, (id_t)call->file, &info, WEXITED);
	call->other = info.si_status;
	return result ? result : info.si_pid;
}

static void a_thread_that_waits_for_a_child_lets_other_ones_go_on(void **state)
{
	(void)state;
	make_function *const waits[] = {call_waitpid, call_waitid};
	for (int i = 0; i < 2; i++) {
		const uint64_t begun = now_ns();
		pid_t child = child_that_ends_after(200);
		struct call call = {.make = waits[i], .file = child};
		begin_and_see_it_wait_until(&call, begun, 200 * MS);
		assert_int_equal(end(&call), child);
		assert_int_equal(call.other, 7);
		begin(&call);
		assert_fails(&call, ECHILD);
	}
}

static void any_child_can_be_waited_for(void **state)
{
	(void)state;
	pid_t child = child_that_ends_after(50);
	int status;

	assert_int_equal(wait(&status), child);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(wait(&status), -1);
	assert_int_equal(errno, ECHILD);
}

/* In the child threads wait for files again, by themselves. */
static int wait_in_child(void)
{
	char byte = 0;
	int file[2];

	make_pipe(file);
	struct call call = {.make = call_read, .file = file[0], .bytes = &byte, .size = 1};
	limit_to(20);
	begin_and_see_it_wait(&call);
	send_bytes(file[1], "x", 1);
	return end(&call) == 1 && byte == 'x' ? 0 : 1;
}

static void the_child_of_a_fork_waits_for_files_of_its_own(void **state)
{
	(void)state;
	char byte;
	int file[2];

	make_pipe(file);
	struct call call = {.make = call_read, .file = file[0], .bytes = &byte, .size = 1};
	begin_and_see_it_wait(&call);
	assert_int_equal(in_child(wait_in_child), 0);
	assert_false(call.done);
	send_bytes(file[1], "x", 1);
	assert_int_equal(end(&call), 1);
	close_pair(file);
}

#define CONNECTIONS 5000

struct echo {
	int server, set;
	unsigned int connections, open;
};

static void *echo(void *argument)
{
	struct echo *echo = argument;
	struct epoll_event events[64], wanted = {.events = EPOLLIN, .data.fd = echo->server};
	char bytes[64];

	epoll_ctl(echo->set, EPOLL_CTL_ADD, echo->server, &wanted);
	for (unsigned int accepted = 0; accepted < echo->connections || echo->open;) {
		int ready = epoll_wait(echo->set, events, 64, -1);
		for (int i = 0; i < ready; i++) {
			int file = events[i].data.fd;
			if (file == echo->server) {
				wanted.data.fd = accept4(file, NULL, NULL, SOCK_NONBLOCK);
				epoll_ctl(echo->set, EPOLL_CTL_ADD, wanted.data.fd, &wanted);
				accepted++;
				echo->open++;
				continue;
			}
			ssize_t got = read(file, bytes, sizeof(bytes));
			if (got > 0) {
				assert_int_equal(write(file, bytes, (size_t)got), got);
			} else {
				close(file);
				echo->open--;
			}
		}
	}
	return NULL;
}

/* A quarter of the connections, all open, and some words on each. */
static ssize_t call_talk(struct call *call)
{
	struct sockaddr_in *address = (struct sockaddr_in *)call->bytes;
	int *files = malloc(call->size * sizeof(*files));
	ssize_t rounds = 0;

	for (size_t i = 0; i < call->size; i++)
		files[i] = connect_to(address);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < call->size; i++)
			send_bytes(files[i], (char *)&i, sizeof(i));
		for (size_t i = 0, got; i < call->size; i++) {
			assert_int_equal(recv(files[i], &got, sizeof(got), MSG_WAITALL),
					 sizeof(got));
			rounds += got == i;
		}
	}
	for (size_t i = 0; i < call->size; i++)
		close(files[i]);
	free(files);
	return rounds;
}

static void an_epoll_server_has_thousands_of_connections(void **state)
{
	(void)state;
	struct echo server = {.set = epoll_create1(EPOLL_CLOEXEC)};
	struct sockaddr_in address;
	struct rlimit limit;
	struct call clients[4];
	pthread_t thread;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	size_t each = (limit.rlim_cur > 2 * CONNECTIONS + 100 ? CONNECTIONS
							      : (limit.rlim_cur - 100) / 2) /
		      4;
	server.server = listen_somewhere(&address, 4096);
	server.connections = (unsigned int)each * 4;
	pthread_create(&thread, NULL, echo, &server);
	for (int i = 0; i < 4; i++) {
		clients[i] = (struct call){
			.make = call_talk, .bytes = (char *)&address, .size = each};
		begin(&clients[i]);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(end(&clients[i]), 3 * each);
	pthread_join(thread, NULL);
	close(server.set);
	close(server.server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_waits_for_several_files_lets_other_ones_go_on),
		cmocka_unit_test(a_time_limit_ends_the_wait_and_not_before),
		cmocka_unit_test(a_file_that_was_hung_up_is_no_exception),
		cmocka_unit_test(a_thread_that_sleeps_lets_other_ones_go_on_and_sleeps_long_enough),
		cmocka_unit_test(what_is_no_time_is_not_slept),
		cmocka_unit_test(a_thread_that_waits_for_a_child_lets_other_ones_go_on),
		cmocka_unit_test(any_child_can_be_waited_for),
		cmocka_unit_test(the_child_of_a_fork_waits_for_files_of_its_own),
		cmocka_unit_test(an_epoll_server_has_thousands_of_connections),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
