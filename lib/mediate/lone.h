/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Timers of a process's only thread, in place of the guard (guard.h), which would be a second
 * thread: some programs require to have one. Chromium's zygotes abort otherwise, and Linux refuses
 * unshare(CLONE_NEWUSER).
 *
 * A timer sends the C library's signal for setuid(3) among threads, which no program can block or
 * handle. The handler takes the lock and calls `expired`. One timer counts the thread's CPU time,
 * the other one the time. Like all timers they end with an exec, and no child has them.
 *
 * The signal can end a poll(2) or another call that signal(7) lists with EINTR. This can happen
 * once in each budget of CPU time.
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_MEDIATE_LONE_H
#define TEK_MEDIATE_LONE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * For the calling thread. A thread must have been created in this process or a parent of it: this
 * is when the C library installs a handler. False: there are no such timers here.
 */
bool tek__lone_start(void (*expired)(void));

/* The next expiry is after that much more CPU time; 0: there is none. */
void tek__lone_after_cpu(uint64_t cpu_ns);

/* Another expiry is at that time (CLOCK_MONOTONIC); UINT64_MAX: there is none. */
void tek__lone_at(uint64_t ns);

/* Removes timers and handler. In any thread, and in the child of a fork, which has no timers. */
void tek__lone_end(void);

#endif
