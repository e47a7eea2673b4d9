/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The effect of a system call on the state of the calling thread: state.h. */
#ifndef TEK_UTHREAD_POSIX_STATE_EFFECT_H
#define TEK_UTHREAD_POSIX_STATE_EFFECT_H

#include <stdbool.h>
#include <sys/types.h>

struct tek_effect {
	bool binds;          /* it changes or reads state of the calling thread alone, */
	bool inherited;      /* and new threads inherit from their creator */
	bool may_do_without; /* without a kernel thread of the caller's own it is still made */
	bool is_refused;     /* it fails with `error` */
	int error;
	const char *what, *why; /* for the message */
};

static const struct tek_effect tek_ut__ordinary = {.binds = false};
static const struct tek_effect tek_ut__changes = {.binds = true, .inherited = true};
static const struct tek_effect tek_ut__binds = {.binds = true};
static const struct tek_effect tek_ut__reads = {.binds = true, .may_do_without = true};

#define TEK_REFUSED(number, call, reason) \
	((struct tek_effect){ \
		.is_refused = true, .error = (number), .what = (call), .why = (reason)})

/*
 * The effect of a system call: state.h. A thread id of the caller's own in its arguments becomes 0.
 */
struct tek_state_call;
struct tek_effect tek_ut__effect_of(struct tek_state_call *call);

/* Whether the calling thread is the only one of the process; whether `tid` is its own, or 0. */
bool tek_ut__state_is_alone(void);
bool tek_ut__state_is_own_tid(pid_t tid);

/* The effect of prctl(2). argument[0] is the option; a thread id of the caller's own becomes 0. */
struct tek_effect tek_ut__effect_of_prctl(unsigned long *argument);

/*
 * The state of the thread that argument[number] names: 0 and the caller's own id mean the caller.
 */
struct tek_effect tek_ut__effect_on_thread(unsigned long *argument, unsigned int number);

/*
 * The effect of seccomp(2) in strict mode, which forbids system calls that the engine needs to
 * switch threads.
 */
struct tek_effect tek_ut__effect_of_strict_mode(void);

#endif
