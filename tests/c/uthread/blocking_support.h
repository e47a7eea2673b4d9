/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that block, in threads of a plain pthread program.
 *
 * It says what POSIX and Linux promise, so it holds for kernel threads too: tests/meson.build runs
 * it as it is, and again with libtek-uthread.so preloaded, on one worker without preemption.  There
 * a call that kept its kernel thread would stop all others, and the test with them.
 */
#ifndef TEK_TESTS_BLOCKING_SUPPORT_H
#define TEK_TESTS_BLOCKING_SUPPORT_H

#include "support.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

/* Whether threads are user-level threads. */
static inline bool is_preloaded(void)
{
	return getenv("TEK_UTHREAD") != NULL;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define MS 1000000ull

/* One call by a thread of its own. */
struct call {
	ssize_t (*make)(struct call *);
	int file, other;
	char *bytes;
	size_t size;
	int flags;

	pthread_t thread;
	ssize_t result;
	int error;
	uint64_t ns; /* how long it took */
	atomic_bool begun, done;
};

static inline void *make_call(void *argument)
{
	struct call *call = argument;
	uint64_t before = now_ns();

	errno = 0;
	call->begun = true;
	call->result = call->make(call);
	call->error = errno;
	call->ns = now_ns() - before;
	call->done = true;
	return NULL;
}

static inline void begin(struct call *call)
{
	call->begun = call->done = false;
	assert_int_equal(pthread_create(&call->thread, NULL, make_call, call), 0);
}

static inline void begin_and_give_it_time(struct call *call)
{
	begin(call);
	while (!call->begun)
		sleep_ms(1);
	sleep_ms(30);
}

/* It is made and waits; others go on meanwhile. */
static inline void begin_and_see_it_wait(struct call *call)
{
	begin_and_give_it_time(call);
	assert_false(call->done);
}

/* One that ends by itself when so much time has passed since then: who looks may be late. */
static inline void begin_and_see_it_wait_until(struct call *call, uint64_t since, uint64_t limit_ns)
{
	begin_and_give_it_time(call);
	const bool done = call->done;
	if (now_ns() - since < limit_ns)
		assert_false(done);
}

static inline ssize_t end(struct call *call)
{
	void *result;
	assert_int_equal(pthread_join(call->thread, &result), 0);
	assert_null(result); /* not cancelled */
	return call->result;
}

static inline void assert_fails(struct call *call, int error)
{
	assert_int_equal(end(call), -1);
	assert_int_equal(call->error, error);
}

static inline void make_pipe(int file[2])
{
	assert_int_equal(pipe2(file, O_CLOEXEC), 0);
}

static inline void make_sockets(int file[2], int type)
{
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, file), 0);
}

static inline void close_pair(const int file[2])
{
	close(file[0]);
	close(file[1]);
}

static inline void send_bytes(int file, const char *bytes, size_t size)
{
	assert_int_equal(write(file, bytes, size), size);
}

/* Until it would have to wait. */
static inline void fill(int file)
{
	char bytes[4096] = {0};
	int flags = fcntl(file, F_GETFL);

	fcntl(file, F_SETFL, flags | O_NONBLOCK);
	while (write(file, bytes, sizeof(bytes)) > 0 || write(file, bytes, 1) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	fcntl(file, F_SETFL, flags);
}

/* A TCP socket that listens on the loopback, and where. */
static inline int listen_somewhere(struct sockaddr_in *address, int backlog)
{
	int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(file, (struct sockaddr *)address, size), 0);
	assert_int_equal(listen(file, backlog), 0);
	assert_int_equal(getsockname(file, (struct sockaddr *)address, &size), 0);
	return file;
}

static inline int connect_to(const struct sockaddr_in *address)
{
	int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(file, (const struct sockaddr *)address, sizeof(*address)), 0);
	return file;
}

static inline void set_time_limit(int file, int option, unsigned int ms)
{
	const struct timeval limit = {.tv_usec = ms * 1000};
	assert_int_equal(setsockopt(file, SOL_SOCKET, option, &limit, sizeof(limit)), 0);
}

static atomic_int signals_seen;

static inline void see_signal(int number)
{
	(void)number;
	signals_seen++;
}

static inline void handle(int number, int flags)
{
	struct sigaction action = {.sa_handler = see_signal, .sa_flags = flags};
	assert_int_equal(sigaction(number, &action, NULL), 0);
	signals_seen = 0;
}

#endif
