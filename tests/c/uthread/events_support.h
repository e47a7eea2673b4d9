/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A worker that polls, and threads that wait for files. */
#ifndef TESTS_EVENTS_SUPPORT_H
#define TESTS_EVENTS_SUPPORT_H

#include "support.h"

#include "base/clock.h"
#include "uthread/events.h"
#include "uthread/spin.h"

#include <stdatomic.h>
#include <sys/socket.h>

static pthread_t worker;
static atomic_bool stopped;
static atomic_bool to_pause, is_paused;
static atomic_uint waits; /* that it has ended */

static inline void *poll_events(void *unused)
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

static inline int start_worker(void **state)
{
	(void)state;
	atomic_store(&tek_ut__parallel_now, true);
	if (tek_ut__events_start())
		return -1;
	return pthread_create(&worker, NULL, poll_events, NULL);
}

static inline int stop_worker(void **state)
{
	(void)state;
	stopped = true;
	tek_ut__events_stop_waiting();
	return pthread_join(worker, NULL);
}

static inline struct timespec in_ns(uint64_t ns)
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

static inline void *read_when_ready(void *argument)
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

static inline void start_reader(struct reader *reader)
{
	reader->result = 1;
	assert_int_equal(pthread_create(&reader->thread, NULL, read_when_ready, reader), 0);
}

static inline int end_of(struct reader *reader)
{
	pthread_join(reader->thread, NULL);
	return reader->result;
}

static inline void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static inline void close_pair(const int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

static inline void send_bytes(int file, size_t count)
{
	char bytes[64] = {0};
	assert_int_equal(write(file, bytes, count), count);
}

/* As in a program with the preload object's close(). */
static inline void close_well(int file)
{
	tek_ut__events_closing(file);
	close(file);
	tek_ut__events_closed(file);
}

#endif
