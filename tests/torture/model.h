/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a thread has set for itself, whatever lifts it: the judge's model of one slot. */
#ifndef TEK_TORTURE_MODEL_H
#define TEK_TORTURE_MODEL_H

#include "history.h"

struct model {
	struct scheduling base; /* what it has when it is not Fast */
	bool has_policy;        /* it has the policy SCHED_TEK, */
	int8_t tek_priority;    /* with this priority */
	unsigned int entered;
	uint64_t until_ns;  /* end of a timed stay; 0: none */
	uint16_t last_step; /* the last one that changed any of this */
};

/* A step of this or another thread has changed it. `ns` is the time of its end. */
void model_step(struct model *model, const struct step *step, int result, uint64_t ns);

/* Whether it is Fast by itself. A timed stay may end a little late. */
bool model_is_fast(const struct model *model, uint64_t ns);

/* The scheduling that the kernel has for it while nothing lifts it. */
struct scheduling model_scheduling(const struct model *model, uint64_t ns);

/* What its children begin with. */
struct scheduling model_of_child(const struct model *model);

bool scheduling_is_same(struct scheduling one, struct scheduling other);

#endif
