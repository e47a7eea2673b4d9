/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls that change or read the kernel's state of the calling thread alone.
 *
 * docs/design/thread-state.md lists that state, and the treatment of each part: the engine switches
 * it, the calling thread is bound to a kernel thread of its own (uthread/bound.h), or the call
 * fails with one message. state_effect.c decides by the number of the system call and its
 * arguments, so the C library's function and syscall(2) are treated alike.
 *
 *   struct tek_state_call call = {.number = SYS_setfsuid, .argument = {id}};
 *   if (!tek_ut__state_begin(&call))
 *           return -1;
 *   result = the call, with call.argument
 *   tek_ut__state_end(&call);
 *
 * By any thread, at any moment; for kernel threads, and in the child of vfork(), nothing is done.
 * In between the thread may be given another kernel thread.
 */
#ifndef TEK_UTHREAD_POSIX_STATE_H
#define TEK_UTHREAD_POSIX_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tek_state_call {
	long number;
	unsigned long argument[6]; /* a thread id of the caller's own becomes 0 */
	bool of_process;           /* the state of the whole process changes */
};

/* Whether tek_ut__state_begin() has anything to do for a system call of this number. */
bool tek_ut__state_concerns(long number);

/*
 * Before the call. False: the call must not be made; errno is EAGAIN, EPERM, ENOSYS or EOPNOTSUPP.
 */
bool tek_ut__state_begin(struct tek_state_call *call);

/* Before a thread is created: its kernel threads inherit the only thread's changes. errno stays. */
void tek_ut__state_finish(void);

/* After it; errno stays. */
void tek_ut__state_end(const struct tek_state_call *call);

/*
 * The same for timer_create(2), with a signal for the caller's own thread id: argument[1]
 * becomes `own` then, with the id that the thread has now.
 */
bool tek_ut__state_begin_timer(struct tek_state_call *call, struct sigevent *own);

/*
 * Whether a thread that opens this file for writing may change its own state by that: a file of the
 * thread in /proc, such as attr/current, or a control group's list of threads.
 */
bool tek_ut__state_is_own_file(const char *path);

/*
 * tek_ut__state_begin() for such a file. `room` (PATH_MAX) becomes the path by which it is to be
 * opened.
 */
bool tek_ut__state_begin_file(struct tek_state_call *call, const char *path, char *room,
			      size_t size);

#endif
