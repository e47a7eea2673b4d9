/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for files: one epoll(7) for the whole engine.
 *
 * A thread that waits for a file is in the list of that descriptor. The descriptor is in the epoll
 * set, once for each event (EPOLLONESHOT), for all events that its waiters want. Each new waiter
 * re-arms it.
 *
 * The C library closes files of its own accord, so a descriptor may be closed and reused without
 * notice to the engine. So no remembered state of a descriptor is trusted. The engine asks the
 * kernel each time for the registration, and a woken thread itself checks whether its file is
 * ready. An event for another waiter costs one check, and no event is lost.
 *
 * Locking: a spin lock for each descriptor (events_table.h), held during epoll_ctl(2) and while
 * threads are woken. No memory is allocated under it.
 */
#ifndef TEK_UTHREAD_EVENTS_H
#define TEK_UTHREAD_EVENTS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* 0 or an error number. */
int tek_ut__events_start(void);

/*
 * The calling user-level thread waits until `file` is ready for `events` (as of poll(2)), or until
 * `deadline` (CLOCK_MONOTONIC; NULL: for ever). For a caller that takes a message or a connection:
 * of several such waiters for one descriptor the first is woken, and the next ones while it stays
 * ready.
 *
 * 0: check again. -ETIMEDOUT. -EINTR: a signal for it, or its cancellation (posix/interrupt.h).
 * -EPERM: a regular file, always ready. Another: the engine cannot wait for it, the kernel has to
 * (-EBADF, -ENOMEM, -ENOSPC, -ELOOP). The same in a child of vfork(2): -EDEADLK, as the child
 * runs on the stack of a thread of its parent.
 *
 * Not between tek_ut__enter() and tek_ut__leave(), as the next two.
 */
int tek_ut__events_wait(int file, short events, const struct timespec *deadline);

/*
 * The same for several files, of which one is enough; negative descriptors and regular files are
 * ignored. Such a waiter is always woken, in addition to one that waits by tek_ut__events_wait().
 * `revents` is unchanged.
 */
int tek_ut__events_wait_any(const struct pollfd *files, nfds_t count,
			    const struct timespec *deadline);

/*
 * poll(2) itself, with a deadline: how many are ready, 0 when the time has come, or an error as
 * above.
 */
int tek_ut__events_poll(struct pollfd *files, nfds_t count, const struct timespec *deadline);

/*
 * Around a close(2) by the program. The first call removes the descriptor from the epoll set. Both
 * wake its waiters, which find it closed. By any thread.
 */
void tek_ut__events_closing(int file);
void tek_ut__events_closed(int file);

/*
 * One thread at a time may check whether `file` has input and then take it, where one system call
 * cannot do both: accept(2). False: another thread has the claim; treat it as no input. It is no
 * lock: a thread that does not get it in a while may continue without, and the kernel makes one of
 * them wait.
 */
bool tek_ut__events_claim(int file);
void tek_ut__events_disclaim(int file);

/*
 * By workers, with preemption deferred: wakes the threads that wait for ready files. Waits for
 * ready files for `ns` at most (UINT64_MAX: for ever), or until tek_ut__events_stop_waiting(); an
 * earlier call counts, too.
 */
void tek_ut__events_run(uint64_t ns);

/* From anywhere, signal handlers too. */
void tek_ut__events_stop_waiting(void);

/* Whether any thread waits for a file. */
bool tek_ut__events_any(void);

/* In the child of fork(2), by its only thread: no thread waits for anything. */
void tek_ut__events_after_fork(void);

#endif
