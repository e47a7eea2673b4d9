/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that block, made as a struct call says, and what tests of several files do with them. */
#ifndef TEK_TESTS_BLOCKING_CALLS_H
#define TEK_TESTS_BLOCKING_CALLS_H

#include "blocking_support.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/uio.h>

typedef ssize_t make_function(struct call *);

#define MUCH (1 << 20)

static inline ssize_t call_read(struct call *call)
{
	return read(call->file, call->bytes, call->size);
}

static inline ssize_t call_write(struct call *call)
{
	return write(call->file, call->bytes, call->size);
}

/* In two pieces, of which the first is one byte. */
static inline ssize_t call_readv(struct call *call)
{
	struct iovec pieces[] = {{call->bytes, 1}, {call->bytes + 1, call->size - 1}};
	return readv(call->file, pieces, 2);
}

static inline ssize_t call_writev(struct call *call)
{
	struct iovec pieces[] = {{call->bytes, call->size / 3},
				 {call->bytes, 0},
				 {call->bytes + call->size / 3, call->size - call->size / 3}};
	return writev(call->file, pieces, 3);
}

static inline ssize_t call_recv(struct call *call)
{
	return recv(call->file, call->bytes, call->size, call->flags);
}

static inline ssize_t call_send(struct call *call)
{
	return send(call->file, call->bytes, call->size, call->flags);
}

/* Reads all of `size` bytes, slowly, and compares them. */
static inline void read_slowly(int file, const char *bytes, size_t size)
{
	static char got[MUCH];
	size_t done = 0;
	while (done < size) {
		ssize_t count = read(file, got + done, size - done > 50000 ? 50000 : size - done);
		assert_true(count > 0);
		done += (size_t)count;
		sched_yield();
	}
	assert_memory_equal(got, bytes, size);
}

static inline struct timespec time_of_ms(int ms)
{
	return (struct timespec){ms / 1000, ms % 1000 * 1000000L};
}

/* `size` is the time limit in ms, 0: none. */

static inline ssize_t call_poll(struct call *call)
{
	struct pollfd files[2] = {{.fd = call->other, .events = POLLIN},
				  {.fd = call->file, .events = POLLIN}};
	int ready = poll(files, 2, call->size ? (int)call->size : -1);
	assert_int_equal(files[1].revents, ready > 0 ? POLLIN : 0);
	return ready;
}

static inline ssize_t call_ppoll(struct call *call)
{
	struct pollfd file = {.fd = call->file, .events = POLLIN};
	const struct timespec time = time_of_ms((int)call->size);
	return ppoll(&file, 1, call->size ? &time : NULL, NULL);
}

static inline ssize_t call_select(struct call *call)
{
	struct timeval time = {.tv_usec = (suseconds_t)call->size * 1000};
	fd_set in, exceptions;

	FD_ZERO(&in);
	FD_SET(call->file, &in);
	FD_SET(call->other, &in);
	exceptions = in;
	int ready = select(call->file > call->other ? call->file + 1 : call->other + 1, &in, NULL,
			   &exceptions, call->size ? &time : NULL);
	if (ready >= 0) {
		assert_int_equal(!!FD_ISSET(call->file, &in), ready);
		assert_false(FD_ISSET(call->other, &in) || FD_ISSET(call->file, &exceptions));
	} else {
		assert_true(FD_ISSET(call->file, &in)); /* as it was */
	}
	if (ready == 0)
		assert_true(time.tv_sec == 0 && time.tv_usec == 0);
	return ready;
}

static inline ssize_t call_pselect(struct call *call)
{
	const struct timespec time = time_of_ms((int)call->size);
	fd_set in;

	FD_ZERO(&in);
	FD_SET(call->file, &in);
	return pselect(call->file + 1, &in, NULL, NULL, call->size ? &time : NULL, NULL);
}

static inline int set_with(int file)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
	int set = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, file, &event), 0);
	return set;
}

static inline ssize_t call_epoll_wait(struct call *call)
{
	struct epoll_event event;
	int set = set_with(call->file);
	int ready = epoll_wait(set, &event, 1, call->size ? (int)call->size : -1);
	int error = errno;
	close(set);
	errno = error;
	return ready;
}

static inline ssize_t call_epoll_pwait2(struct call *call)
{
	struct epoll_event event;
	const struct timespec time = time_of_ms((int)call->size);
	int set = set_with(call->file);
	int ready = epoll_pwait2(set, &event, 1, call->size ? &time : NULL, NULL);
	int error = errno;
	close(set);
	errno = error;
	return ready;
}

static inline ssize_t call_nanosleep(struct call *call)
{
	const struct timespec time = time_of_ms((int)call->size);
	return nanosleep(&time, NULL);
}

static inline ssize_t call_usleep(struct call *call)
{
	return usleep((useconds_t)call->size * 1000);
}

#endif
