/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps that change the scheduling of threads. */
#include "worker.h"

#define TEK_OPTIONAL
#include <tek/tek.h>

static int set_policy(const struct slot *other, const struct step *step)
{
	const bool has_priority = step->op == OP_TEK || step->op == OP_FIFO || step->op == OP_RR;
	const struct sched_param param = {.sched_priority = has_priority ? step->argument : 0};
	static const int policies[OPS] = {
		[OP_TEK] = SCHED_TEK,   [OP_OTHER] = SCHED_OTHER, [OP_BATCH] = SCHED_BATCH,
		[OP_IDLE] = SCHED_IDLE, [OP_FIFO] = SCHED_FIFO,   [OP_RR] = SCHED_RR,
	};

	switch (step->op) {
	case OP_NICE:
		return setpriority(PRIO_PROCESS, (id_t)other->tid, step->argument) ? errno : 0;
	case OP_RESET:
		return sched_setscheduler(other->tid, SCHED_OTHER | SCHED_RESET_ON_FORK, &param)
			       ? errno
			       : 0;
	default:
		return pthread_setschedparam(other->handle, policies[step->op], &param);
	}
}

/* Whether its handle and its kernel id are valid. Needs its gate. */
static bool is_there(const struct slot *slot)
{
	return slot->tid && (slot->state == STATE_AT_WORK || slot->state == STATE_JOINED ||
			     slot->state == STATE_PARKED);
}

int perform_policy(struct slot *self, const struct step *step)
{
	struct slot *other = &slots[step->object];
	int result = STEP_LEFT_OUT;

	raw_lock(&other->gate);
	self->holds_gate = other == self;
	if (is_there(other)) {
		step_begins(self);
		if (step->op == OP_CANCEL && (other->state == STATE_PARKED || other == self))
			result = 0;
		else
			result = step->op == OP_CANCEL ? pthread_cancel(other->handle)
						       : set_policy(other, step);
	}
	if (result != STEP_LEFT_OUT)
		record(shared, (struct event){.kind = EVENT_END,
					      .slot = (uint8_t)self->number,
					      .step = self->step,
					      .result = result});
	self->is_in_step = false;
	self->holds_gate = false;
	raw_unlock(&other->gate);
	return STEP_LEFT_OUT; /* its end is recorded */
}

int perform_region(struct slot *self, const struct step *step)
{
	step_begins(self);
	if (step->op == OP_FOR)
		return tek_critical_for((uint64_t)step->argument * 1000 + 1);
	return step->op == OP_ENTER ? tek_critical_enter() : tek_critical_leave();
}
