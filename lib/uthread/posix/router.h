/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds a thread for a signal that the kernel could not give to one.
 *
 * The kernel gives a signal to the process to a running thread that does not block it. While no
 * such thread runs, the signal must not be lost on a kernel thread that waits for work. So these
 * block all signals, and the signal stays with the process. A kernel thread, the router, receives
 * it and wakes a waiting user-level thread that would take it. If there is none, all block it, and
 * it stays pending: for sigwait(), for signalfd(2), or until a thread unblocks it.
 *
 * The kernel prefers the first thread for a signal to the process. It knows kernel threads only, so
 * the signal may reach another user-level thread there while the first one waits in the engine. The
 * router passes it on, and the call in which the first thread waits fails with EINTR.
 *
 * A signal that arrives while the engine is at work is put into one of a few slots, without a lock.
 * The router finds a thread for it, too: mostly the one that was running.
 *
 * A thread may be in a non-preemptible section (preempt.h) when it has to stop for a signal or its
 * cancellation. The router then stops it again and again until it succeeds.
 */
#ifndef TEK_UTHREAD_POSIX_ROUTER_H
#define TEK_UTHREAD_POSIX_ROUTER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* 0 or an error number. When the engine runs; in the child of fork(), again. */
int tek_ut__router_start(void);

/*
 * The router has to find a thread for this one. False: it cannot now. From anywhere, signal
 * handlers too.
 */
bool tek_ut__router_put(const siginfo_t *info);

/*
 * Whether the router has to find a thread for this signal, which has reached the calling user-level
 * thread: it is for the process, and the first thread takes it. From a signal handler.
 */
bool tek_ut__router_passes(const siginfo_t *info);

/* One of `wanted` that the router has not handled yet; false: there is none. From anywhere. */
bool tek_ut__router_take(uint64_t wanted, siginfo_t *info);

/* Whether it may just be giving one to a thread. For a moment only. */
bool tek_ut__router_is_busy(void);

/* A running thread has to act. From anywhere. */
void tek_ut__router_check(void);

/*
 * After a new generation of kernel state (uthread/bound.h): it ends. Returns its thread id, 0: it
 * did not run. After the end of that thread it can be started again: 0 or an error number.
 */
pid_t tek_ut__router_stop(void);
int tek_ut__router_start_again(void);

/* In the child of fork(), before it is started again there. */
void tek_ut__router_after_fork(void);

#endif
