/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "model.h"

#include <sched.h>

/* The guard of a busy machine ends a timed stay so much later. */
enum { TIMED_NS = 100000000, RT_OF_PRIORITY_19 = 10 };

static bool is_real_time(struct scheduling scheduling)
{
	return scheduling.policy == SCHED_FIFO || scheduling.policy == SCHED_RR;
}

static void set_base(struct model *model, int policy, int priority, bool reset)
{
	model->base.policy = (uint8_t)policy;
	model->base.priority = (uint8_t)priority;
	model->base.reset_on_fork = reset;
	model->has_policy = false;
}

void model_step(struct model *model, const struct step *step, int result, uint64_t ns)
{
	const uint64_t until = ns + (uint64_t)step->argument * 1000 + 1;

	if (result)
		return;
	switch ((enum op)step->op) {
	case OP_TEK:
		model->has_policy = true;
		model->tek_priority = (int8_t)step->argument;
		break;
	case OP_OTHER:
		set_base(model, SCHED_OTHER, 0, false);
		break;
	case OP_BATCH:
		set_base(model, SCHED_BATCH, 0, false);
		break;
	case OP_IDLE:
		set_base(model, SCHED_IDLE, 0, false);
		break;
	case OP_FIFO:
		set_base(model, SCHED_FIFO, step->argument, false);
		break;
	case OP_RR:
		set_base(model, SCHED_RR, step->argument, false);
		break;
	case OP_RESET:
		set_base(model, SCHED_OTHER, 0, true);
		break;
	case OP_NICE:
		model->base.nice = (int8_t)step->argument;
		break;
	case OP_ENTER:
		model->entered++;
		break;
	case OP_LEAVE:
		if (model->entered)
			model->entered--;
		break;
	case OP_FOR:
		if (until > model->until_ns)
			model->until_ns = until;
		break;
	default:
		break;
	}
}

bool model_is_fast(const struct model *model, uint64_t ns)
{
	return model->has_policy || model->entered || ns < model->until_ns + TIMED_NS;
}

struct scheduling model_scheduling(const struct model *model, uint64_t ns)
{
	struct scheduling scheduling = model->base;
	int priority = 19;

	if (!model->has_policy && !model->entered && ns >= model->until_ns)
		return scheduling;
	if (model->has_policy)
		priority = model->tek_priority;
	if ((model->entered || ns < model->until_ns) && priority > 0)
		priority = 0;
	const uint8_t real_time = (uint8_t)(RT_OF_PRIORITY_19 + 19 - priority);
	if (is_real_time(scheduling) && scheduling.priority >= real_time)
		return scheduling;
	scheduling.policy = SCHED_RR;
	scheduling.priority = real_time;
	/* Where the process may clear the flag it is there. */
	scheduling.reset_on_fork = true;
	return scheduling;
}

struct scheduling model_of_child(const struct model *model)
{
	struct scheduling child = model->base;

	child.reset_on_fork = false;
	if (!model->base.reset_on_fork)
		return child;
	if (is_real_time(child))
		return (struct scheduling){.policy = SCHED_OTHER};
	if (child.nice < 0)
		child.nice = 0;
	return child;
}

bool scheduling_is_same(struct scheduling one, struct scheduling other)
{
	return one.policy == other.policy && one.priority == other.priority &&
	       one.nice == other.nice && one.reset_on_fork == other.reset_on_fork;
}
