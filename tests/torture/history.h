/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory that the tortured process shares with the supervisor: the steps of a round, and the
 * history of what happened. The number of an event is its place in the order of all.
 *
 * A thread reserves a place, then fills it. A process that is killed may leave an empty place.
 */
#ifndef TEK_TORTURE_HISTORY_H
#define TEK_TORTURE_HISTORY_H

#include "step.h"

#include <stdatomic.h>

/* The kernel's settings of a thread. */
struct scheduling {
	uint8_t policy; /* SCHED_* */
	uint8_t priority;
	int8_t nice;
	uint8_t reset_on_fork;
};

enum event_kind {
	EVENT_NONE,
	EVENT_BEGIN,     /* of a step */
	EVENT_END,       /* of a step, with its result */
	EVENT_CANCELLED, /* the thread was cancelled in this step */
	EVENT_BORN,      /* a child process begins in this step, with this scheduling */
	EVENT_ENDS,      /* the thread is about to end */
	EVENT_SAMPLE,    /* a thread at work has this scheduling */
	EVENT_REST,      /* a thread that does nothing has this scheduling; the last one counts */
};

/* The result of a step that was left out. */
enum { STEP_LEFT_OUT = -1 };

struct event {
	uint64_t ns; /* CLOCK_MONOTONIC */
	int32_t result;
	uint16_t step;
	uint8_t kind;
	uint8_t slot;
	uint8_t lock; /* of EVENT_END: which lock the step has unlocked */
	struct scheduling scheduling;
};

/* Samples leave room for the events of MOST_STEPS steps. */
enum { MOST_EVENTS = 1 << 17, MOST_SAMPLES = MOST_EVENTS - (1 << 15) };

/* The process that acts next. The other one waits. */
enum next { FOR_PROCESS, FOR_SUPERVISOR };

/* What the process is to do. */
enum order { ORDER_ROUND, ORDER_REST_AGAIN, ORDER_END_ROUND, ORDER_QUIT };

struct shared {
	_Atomic uint32_t next; /* a futex */
	uint32_t order;
	struct scheduling first;   /* of the process before its first round */
	int32_t may_be_critical;   /* an errno value */
	_Atomic uint32_t progress; /* counts all events but those of the sampler */
	_Atomic uint32_t count;
	struct step_list list;
	struct event events[MOST_EVENTS];
};

#endif
