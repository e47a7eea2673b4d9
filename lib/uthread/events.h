/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for files: one epoll(7) for the whole engine.
 *
 * A thread that waits for a file is in the list of that descriptor; the descriptor is in the epoll set, once for
 * each event (EPOLLONESHOT), for what all those want who are in its list.  Each new waiter sets that again.
 *
 * A descriptor may be closed, and opened again for something else, without our hearing of it: the C library
 * closes files of its own accord.  So nothing that is remembered of a descriptor is believed.  What it is in the
 * set for is asked of the kernel each time, and a thread that was woken looks itself whether its file
 * is ready: an event that is not for it costs a look, and is never lost for another.
 *
 * Locking: a spin lock for each descriptor (events_table.h), held while the kernel is told and while threads
 * are woken.  No memory is allocated under it.
 */
#ifndef TEK_UTHREAD_EVENTS_H
#define TEK_UTHREAD_EVENTS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* 0 or an error number. */
int tek__events_start(void);

/*
 * The calling user-level thread waits until `file` is ready for `events` (as of poll(2)), or until `deadline`
 * (CLOCK_MONOTONIC; NULL: for ever).  For who will take what is there, a message or a connection: of several that
 * wait so for one descriptor the first is woken, and the others while it stays ready.
 *
 * 0: look again.  -ETIMEDOUT.  -EINTR: a signal for it, or its cancellation (posix/interrupt.h).  -EPERM: it is
 * always ready, a regular file.  Another: it cannot be waited for here, the kernel has to (-EBADF, -ENOMEM,
 * -ENOSPC, -ELOOP; -EDEADLK in a child of vfork(2), which runs on the stack of a thread of its parent).
 *
 * Not between tek__enter() and tek__leave(), as the next two.
 */
int tek__events_wait(int file, short events, const struct timespec *deadline);

/*
 * The same for several, of which one is enough; negative descriptors and regular files are passed over.  Whoever
 * waits so is woken in any case, beside who waits by tek__events_wait().  `revents` stays as it is.
 */
int tek__events_wait_any(const struct pollfd *files, nfds_t count, const struct timespec *deadline);

/* poll(2) itself, with a deadline: how many are ready, 0 when the time has come, or an error as above. */
int tek__events_poll(struct pollfd *files, nfds_t count, const struct timespec *deadline);

/*
 * Around a close(2) by the program: before it, the descriptor leaves the epoll set; before it and after it those
 * who wait for it are woken, to find it closed.  By any thread.
 */
void tek__events_closing(int file);
void tek__events_closed(int file);

/*
 * One at a time may look whether `file` has something and then take it, where the kernel cannot be asked for
 * both at once: accept(2).  False: somebody else is about to; as if there were nothing.  It is no lock, who does not
 * get it in a while may go on without: then the kernel makes one of them wait.
 */
bool tek__events_claim(int file);
void tek__events_disclaim(int file);

/*
 * By workers, with preemption deferred: wakes threads whose files are ready.  Waits for that for `ns` at most
 * (UINT64_MAX: for ever), or until tek__events_stop_waiting(), also one that came before.
 */
void tek__events_run(uint64_t ns);

/* From anywhere, signal handlers too. */
void tek__events_stop_waiting(void);

/* Whether anybody waits for a file. */
bool tek__events_any(void);

/* In the child of fork(2), by its only thread: nobody waits for anything. */
void tek__events_after_fork(void);

#endif
