/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's requests to the kernel about files: the epoll set, and an eventfd in it that ends a
 * wait.
 *
 * Functions return what the system call does, errors as -errno.
 */
#ifndef TEK_UTHREAD_EVENTS_SET_H
#define TEK_UTHREAD_EVENTS_SET_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/*
 * A program may close both by system calls that the C library does not see.  The next function here
 * that finds them closed makes them anew, and ends the wait in the old set.
 *
 * tek_ut__event_set_renewed(): whether that was so since the last call; then all files that threads
 * wait for have to be armed again.  tek_ut__event_set_lost: NULL, or called then, from anywhere.
 */
bool tek_ut__event_set_renewed(void);
extern void (*tek_ut__event_set_lost)(void) __attribute__((visibility("hidden")));

/* Makes both; again in the child of fork(2). 0 or -errno. */
int tek_ut__event_set_start(void);
void tek_ut__event_set_after_fork(void);

/* `file` is waited for: once, for these events. `registered`: whether it may be in the set. */
int tek_ut__event_set_arm(int file, uint32_t events, bool registered);
void tek_ut__event_set_remove(int file);

/* `ns` as of tek_ut__events_run(). Only events of files: at most `most`. */
int tek_ut__event_set_wait(struct epoll_event *events, int most, uint64_t ns);
void tek_ut__event_set_stop_waiting(void);

/* poll(2) without waiting. */
int tek_ut__event_set_poll(struct pollfd *files, nfds_t count);

#endif
