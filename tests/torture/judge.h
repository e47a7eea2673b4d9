/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The judge compares a history with the model of what each thread has set for itself. It is a pure
 * function: it asks no kernel, and the same history has the same faults.
 *
 * - A thread at rest has its own scheduling. Its own is what steps with the result 0 have set.
 * - A child begins with what its creator has without TEK.
 * - A thread at work that is real-time, but not by itself, is lifted. So a thread with a reason to
 *   be Fast waits for it, directly or through others. A lift may outlive its waiter while the
 *   process performs LIFT_STEPS steps, and LIFT_NS.
 * - A thread is cancelled at cancellation points only.
 * - Each result is one that POSIX allows.
 */
#ifndef TEK_TORTURE_JUDGE_H
#define TEK_TORTURE_JUDGE_H

#include "history.h"

enum fault_kind {
	FAULT_NONE,
	FAULT_OWN,    /* a thread at rest does not have its own scheduling */
	FAULT_BORN,   /* a child did not begin with its own */
	FAULT_LIFT,   /* a lift has outlived its reason */
	FAULT_CANCEL, /* a thread was cancelled where it cannot be */
	FAULT_RESULT,
	FAULT_HANG, /* the process made no progress. This and the next are the supervisor's */
	FAULT_END,  /* the process ended */
};

enum { LIFT_STEPS = 300, LIFT_NS = 250000000 };

struct fault {
	enum fault_kind kind;
	unsigned int slot;
	unsigned int step; /* of FAULT_OWN and FAULT_LIFT: the last step that set its scheduling */
	struct scheduling is, should_be;
	int result;
};

enum { MOST_FAULTS = 16 };

struct verdict {
	unsigned int faults;
	unsigned int steps; /* which were performed */
	unsigned int lifts; /* samples of lifted threads */
	struct fault list[MOST_FAULTS];
};

struct history {
	const struct step_list *list;
	const struct event *events;
	unsigned int count;
	struct scheduling first; /* what the first threads begin with */
	/* Another process makes the switches, and may take them back at any time: tekd. */
	bool may_be_taken_back;
};

void judge(const struct history *history, struct verdict *verdict);

/* A line about a fault, without its end. */
void fault_print(const struct fault *fault, const struct step_list *list, char *text, size_t size);

const char *fault_name(enum fault_kind kind);

#endif
