/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The common part of the calls of blocking.h: the wait between two tries. */
#ifndef TEK_UTHREAD_POSIX_BLOCKED_H
#define TEK_UTHREAD_POSIX_BLOCKED_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/*
 * errno of the thread as it is now, and a call that fails. Functions of their own: a compiler that
 * sees errno twice takes its address once, and a thread with its worker's storage may be on another
 * worker by then.
 */
int tek_ut__errno(void);
int tek_ut__fail(int error); /* -1 */

/* The result of a call that had moved `done` bytes before it failed. */
static inline ssize_t tek_ut__done_or_fail(size_t done, int error)
{
	return done ? (ssize_t)done : tek_ut__fail(error);
}

/* A call that could do nothing at its first try. */
struct tek_blocked {
	int file;
	short events;       /* awaited, as of poll(2) */
	int timeout_option; /* SO_RCVTIMEO or SO_SNDTIMEO; 0: none */
	unsigned int waits;
	bool limited; /* there is a deadline */
	struct timespec deadline;
};

/* It cannot be waited for in the engine: the call itself has to be made. */
#define TEK_CALL_ITSELF (-1)

/*
 * Waits until another try is worthwhile. 0; TEK_CALL_ITSELF; or the error number that the call
 * fails with: EAGAIN (O_NONBLOCK, or its time has come), EINTR. Cancellation acts here, unless the
 * call has moved data already (`done`): then it is EINTR, and acts at the next cancellation point.
 */
int tek_ut__blocked_wait(struct tek_blocked *blocked, bool done);

/*
 * poll(2) without waiting. A signal makes the kernel fail it with EINTR even so, a tick as well:
 * then it is repeated.
 */
int tek_ut__poll_files(struct pollfd *files, nfds_t count);

/* Whether that reports anything about the file. */
bool tek_ut__ready_now(int file, short events);

/*
 * The handlers of signals that count for a call: all, or those without SA_RESTART if it would be
 * restarted.
 */
struct tek_handlers {
	bool restarts;
	unsigned long run; /* the number before the wait began */
};

struct tek_handlers tek_ut__handlers_from_here(bool restarts);
bool tek_ut__handlers_came(const struct tek_handlers *handlers);

/* The engine's wait was interrupted. 0: go on waiting; EINTR: the call fails. Cancellation acts. */
int tek_ut__blocked_interrupted(const struct tek_handlers *handlers);

/*
 * After the call itself has failed: whether the engine interrupted it, not the program, so that it
 * has to be repeated. `handlers`: of all.
 */
bool tek_ut__failed_by_engine(const struct tek_handlers *handlers);

/* Now plus so much time, of CLOCK_MONOTONIC; a time beyond all times becomes the last one. */
struct timespec tek_ut__deadline_in(const struct timespec *time);
/* The time from now until then, not less than 0. */
struct timespec tek_ut__time_until(const struct timespec *deadline);

/* The rest of an array of buffers of which some bytes are done. */
struct tek_rest {
	const struct iovec *vector;
	size_t count;
	size_t skip;       /* bytes of the first one that are done */
	struct iovec head; /* the rest of it */
};

static inline struct tek_rest tek_ut__rest_of(const struct iovec *vector, size_t count)
{
	return (struct tek_rest){.vector = vector, .count = count};
}

size_t tek_ut__iovec_bytes(const struct iovec *vector, size_t count);

/* `bytes` more are done; false: all are. */
bool tek_ut__rest_done(struct tek_rest *rest, size_t bytes);

/* As much of it as one call can take: *count elements from the one that is returned. */
const struct iovec *tek_ut__rest_next(struct tek_rest *rest, size_t *count);

#endif
