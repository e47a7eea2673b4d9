/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "judge.h"

#include "model.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { NOTHING = -1 };

/* What is known of a slot at one moment of the history. */
struct view {
	struct model model;
	bool is_there;
	unsigned int changes; /* steps in progress that may change its scheduling */
	int waits_for_lock, waits_for_slot;
	int held[LOCKS];
	int taking; /* a lock that it may hold already */
	/* Since when it has been lifted without a waiter: */
	bool is_suspect, was_blamed;
	uint64_t suspect_since_ns;
	unsigned int suspect_since_step;
	struct scheduling at_rest;
	uint64_t rest_ns;
	bool rests;
};

struct court {
	const struct history *history;
	struct verdict *verdict;
	struct view views[SLOTS];
};

static void blame(struct court *court, struct fault fault)
{
	struct verdict *verdict = court->verdict;

	if (verdict->faults < MOST_FAULTS)
		verdict->list[verdict->faults] = fault;
	verdict->faults++;
}

static bool may_hold(const struct view *view, int lock)
{
	return view->held[lock] || view->taking == lock;
}

/* Whether a thread that may be Fast waits for this slot, at most through all other slots. */
static bool is_awaited(const struct court *court, unsigned int slot, uint64_t ns)
{
	bool reached[SLOTS] = {false};
	bool more = true;

	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct view *view = &court->views[i];
		reached[i] = i != slot && view->is_there &&
			     (view->changes || model_is_fast(&view->model, ns));
	}
	while (more) {
		more = false;
		for (unsigned int i = 0; i < SLOTS; i++) {
			const struct view *waiter = &court->views[i];
			if (!reached[i])
				continue;
			for (unsigned int j = 0; j < SLOTS; j++) {
				const int lock = waiter->waits_for_lock;
				if (reached[j] || j == i ||
				    !((lock != NOTHING && may_hold(&court->views[j], lock)) ||
				      waiter->waits_for_slot == (int)j))
					continue;
				reached[j] = more = true;
			}
		}
	}
	return reached[slot];
}

static bool can_wait(enum op op)
{
	return op <= OP_CLOCKLOCK || (op >= OP_RDLOCK && op <= OP_COND_TIMEDWAIT);
}

static void begins(struct court *court, const struct event *event, const struct step *step)
{
	struct view *view = &court->views[event->slot];
	struct view *other = &court->views[step->object];
	const int lock = step_lock(step);

	if (can_wait(step->op)) {
		view->waits_for_lock = lock;
		view->taking = lock;
	}
	if (step->op == OP_JOIN)
		view->waits_for_slot = step->object;
	if (step->op == OP_ENTER || step->op == OP_LEAVE || step->op == OP_FOR)
		view->changes++;
	if (step_sets_policy(step->op))
		other->changes++;
	if (step->op == OP_CREATE) {
		other->is_there = true;
		other->model = (struct model){.base = model_of_child(&view->model),
					      .last_step = event->step};
	}
}

/* A limit of POSIX: which results a step can have. */
static bool is_possible(const struct step *step, int result)
{
	switch ((enum op)step->op) {
	case OP_UNLOCK:
	case OP_UNLOCK_FIRST:
	case OP_SIGNAL:
	case OP_BROADCAST:
	case OP_FORK:
	case OP_SPAWN:
	case OP_EXEC:
	case OP_DIE:
	case OP_SLEEP:
	case OP_SPIN:
		return result == 0;
	case OP_LOCK:
	case OP_TRYLOCK:
	case OP_TIMEDLOCK:
	case OP_CLOCKLOCK:
	case OP_RDLOCK:
	case OP_WRLOCK:
	case OP_TIMEDRDLOCK:
	case OP_TIMEDWRLOCK:
	case OP_COND_TIMEDWAIT:
		return result == 0 || result == EOWNERDEAD || result == ETIMEDOUT ||
		       result == EBUSY || result == EDEADLK;
	case OP_COND_WAIT:
		return result == 0 || result == EOWNERDEAD;
	case OP_JOIN:
		return result == 0 || result == ETIMEDOUT;
	case OP_LEAVE:
		return result == 0 || result == EINVAL;
	default:
		return true; /* rights of the program, and of tekd */
	}
}

static void changed(struct court *court, unsigned int slot, const struct event *event,
		    const struct step *step)
{
	struct view *view = &court->views[slot];

	view->changes--;
	model_step(&view->model, step, event->result, event->ns);
	view->model.last_step = event->step;
}

static void ends(struct court *court, const struct event *event, const struct step *step)
{
	struct view *view = &court->views[event->slot];
	const int lock = step_lock(step);
	const bool has_it = event->result == 0 || event->result == EOWNERDEAD;

	court->verdict->steps++;
	view->waits_for_lock = view->waits_for_slot = view->taking = NOTHING;
	if (lock != NOTHING && has_it && step->op != OP_COND_WAIT && step->op != OP_COND_TIMEDWAIT)
		view->held[lock]++;
	if ((step->op == OP_UNLOCK || step->op == OP_UNLOCK_FIRST) && event->lock < LOCKS)
		view->held[event->lock]--;
	if (step->op == OP_ENTER || step->op == OP_LEAVE || step->op == OP_FOR)
		changed(court, event->slot, event, step);
	if (step_sets_policy(step->op))
		changed(court, step->object, event, step);
	if (!is_possible(step, event->result))
		blame(court, (struct fault){.kind = FAULT_RESULT,
					    .slot = event->slot,
					    .step = event->step,
					    .result = event->result});
}

static void cancelled(struct court *court, const struct event *event, const struct step *step)
{
	struct view *view = &court->views[event->slot];

	view->waits_for_lock = view->waits_for_slot = view->taking = NOTHING;
	if (!step_is_cancellation_point(step->op))
		blame(court, (struct fault){.kind = FAULT_CANCEL,
					    .slot = event->slot,
					    .step = event->step});
}

static void child_is_born(struct court *court, const struct event *event)
{
	const struct scheduling should_be = model_of_child(&court->views[event->slot].model);

	if (!scheduling_is_same(event->scheduling, should_be))
		blame(court, (struct fault){.kind = FAULT_BORN,
					    .slot = event->slot,
					    .step = event->step,
					    .is = event->scheduling,
					    .should_be = should_be});
}

static void sampled(struct court *court, const struct event *event)
{
	struct view *view = &court->views[event->slot];
	const bool is_lifted = event->scheduling.policy == SCHED_RR && view->is_there &&
			       !view->changes && !model_is_fast(&view->model, event->ns) &&
			       !scheduling_is_same(event->scheduling, view->model.base);
	const unsigned int steps = court->verdict->steps;

	court->verdict->lifts += is_lifted;
	if (!is_lifted || is_awaited(court, event->slot, event->ns)) {
		view->is_suspect = false;
		return;
	}
	if (!view->is_suspect) {
		view->is_suspect = true;
		view->suspect_since_ns = event->ns;
		view->suspect_since_step = steps;
	}
	if (view->was_blamed || steps - view->suspect_since_step < LIFT_STEPS ||
	    event->ns - view->suspect_since_ns < LIFT_NS)
		return;
	view->was_blamed = true;
	blame(court, (struct fault){.kind = FAULT_LIFT,
				    .slot = event->slot,
				    .step = view->model.last_step,
				    .is = event->scheduling,
				    .should_be = view->model.base});
}

static void take_down(struct court *court, const struct event *event)
{
	struct view *view = &court->views[event->slot];
	const struct step *step = &court->history->list->steps[event->step];

	switch (event->kind) {
	case EVENT_BEGIN:
		begins(court, event, step);
		break;
	case EVENT_END:
		ends(court, event, step);
		break;
	case EVENT_CANCELLED:
		cancelled(court, event, step);
		break;
	case EVENT_BORN:
		child_is_born(court, event);
		break;
	case EVENT_ENDS:
		view->is_there = false;
		break;
	case EVENT_SAMPLE:
		sampled(court, event);
		break;
	case EVENT_REST:
		view->rests = true;
		view->rest_ns = event->ns;
		view->at_rest = event->scheduling;
		break;
	}
}

static void judge_rest(struct court *court, unsigned int slot)
{
	const struct view *view = &court->views[slot];
	const struct scheduling should_be = model_scheduling(&view->model, view->rest_ns);

	if (scheduling_is_same(view->at_rest, should_be))
		return;
	if (court->history->may_be_taken_back && model_is_fast(&view->model, view->rest_ns) &&
	    scheduling_is_same(view->at_rest, view->model.base))
		return;
	blame(court, (struct fault){.kind = FAULT_OWN,
				    .slot = slot,
				    .step = view->model.last_step,
				    .is = view->at_rest,
				    .should_be = should_be});
}

void judge(const struct history *history, struct verdict *verdict)
{
	struct court court = {.history = history, .verdict = verdict};

	memset(verdict, 0, sizeof(*verdict));
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct view *view = &court.views[i];
		view->model.base = history->first;
		view->is_there = i < WORKERS;
		view->waits_for_lock = view->waits_for_slot = view->taking = NOTHING;
	}
	for (unsigned int i = 0; i < history->count; i++)
		if (history->events[i].kind != EVENT_NONE && history->events[i].slot < SLOTS &&
		    history->events[i].step < history->list->count)
			take_down(&court, &history->events[i]);
	for (unsigned int i = 0; i < SLOTS; i++)
		if (court.views[i].rests)
			judge_rest(&court, i);
}

const char *fault_name(enum fault_kind kind)
{
	static const char *const names[] = {"none",   "own",    "born", "lift",
					    "cancel", "result", "hang", "end"};

	return names[kind];
}

static void scheduling_print(struct scheduling scheduling, char *text, size_t size)
{
	static const char *const names[] = {"OTHER", "FIFO", "RR", "BATCH", "4", "IDLE"};
	const unsigned int policy = scheduling.policy;

	snprintf(text, size, "%s %u nice %d%s", policy < 6 ? names[policy] : "?",
		 scheduling.priority, scheduling.nice,
		 scheduling.reset_on_fork ? " reset-on-fork" : "");
}

void fault_print(const struct fault *fault, const struct step_list *list, char *text, size_t size)
{
	char is[64], should_be[64], step[64] = "";

	scheduling_print(fault->is, is, sizeof(is));
	scheduling_print(fault->should_be, should_be, sizeof(should_be));
	if (fault->step < list->count)
		step_print(&list->steps[fault->step], step, sizeof(step));
	switch (fault->kind) {
	case FAULT_OWN:
	case FAULT_LIFT:
	case FAULT_BORN:
		snprintf(text, size, "%s: slot %u has %s, should have %s (step %u: %s)",
			 fault_name(fault->kind), fault->slot, is, should_be, fault->step, step);
		break;
	case FAULT_CANCEL:
	case FAULT_RESULT:
		snprintf(text, size, "%s: slot %u in step %u: %s, result %d",
			 fault_name(fault->kind), fault->slot, fault->step, step, fault->result);
		break;
	default:
		snprintf(text, size, "%s: %d", fault_name(fault->kind), fault->result);
	}
}
