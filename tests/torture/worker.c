/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker.h"

static __thread struct slot *own;

void step_begins(struct slot *self)
{
	self->is_in_step = true;
	record(shared, (struct event){.kind = EVENT_BEGIN,
				      .slot = (uint8_t)self->number,
				      .step = self->step});
}

static void step_ends(struct slot *self, int result)
{
	if (result == STEP_LEFT_OUT)
		return;
	self->is_in_step = false;
	record(shared, (struct event){.kind = EVENT_END,
				      .slot = (uint8_t)self->number,
				      .step = self->step,
				      .lock = self->unlocks,
				      .result = result});
}

static void spin_us(long us)
{
	const uint64_t end = now_ns() + (uint64_t)us * 1000;

	while (now_ns() < end)
		;
}

static int perform_break(struct slot *self)
{
	const struct sched_param param = {.sched_priority = 28};

	step_begins(self);
	return syscall(SYS_sched_setscheduler, 0, SCHED_RR | SCHED_RESET_ON_FORK, &param) ? errno
											  : 0;
}

static int perform_pause(struct slot *self, const struct step *step)
{
	step_begins(self);
	if (step->op == OP_SLEEP)
		usleep((unsigned int)step->argument);
	else
		spin_us(step->argument);
	return 0;
}

static int perform(struct slot *self, const struct step *step)
{
	switch (step->op) {
	case OP_COND_WAIT:
	case OP_COND_TIMEDWAIT:
	case OP_SIGNAL:
	case OP_BROADCAST:
		return perform_cond(self, step);
	case OP_JOIN:
		return perform_join(self, step);
	case OP_ENTER:
	case OP_LEAVE:
	case OP_FOR:
		return perform_region(self, step);
	case OP_CREATE:
	case OP_FORK:
	case OP_SPAWN:
	case OP_EXEC:
	case OP_DIE:
		return perform_child(self, step);
	case OP_SLEEP:
	case OP_SPIN:
		return perform_pause(self, step);
	case OP_BREAK:
		return perform_break(self);
	default:
		return step->op <= OP_TIMEDWRLOCK ? perform_lock(self, step)
						  : perform_policy(self, step);
	}
}

/* The thread does nothing more: it parks, or is about to end. */
static bool come_to_rest(struct slot *self, bool may_park)
{
	raw_lock(&self->gate);
	const bool is_parked = may_park && self->state == STATE_AT_WORK;
	self->state = is_parked ? STATE_PARKED : STATE_GONE;
	if (!is_parked)
		record(shared, (struct event){.kind = EVENT_ENDS, .slot = (uint8_t)self->number});
	raw_unlock(&self->gate);
	atomic_fetch_sub(&threads_at_work, 1);
	return is_parked;
}

/* Runs when the thread is cancelled, or exits before its last step. */
static void leave(void *argument)
{
	struct slot *self = argument;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (self->joins >= 0) {
		/* That thread will be joined by another one. */
		struct slot *other = &slots[self->joins];
		uint32_t joined = STATE_JOINED;
		raw_lock(&other->gate);
		atomic_compare_exchange_strong(&other->state, &joined, STATE_AT_WORK);
		raw_unlock(&other->gate);
	}
	if (self->is_in_step && shared->list.steps[self->step].op != OP_EXIT)
		record(shared, (struct event){.kind = EVENT_CANCELLED,
					      .slot = (uint8_t)self->number,
					      .step = self->step});
	if (self->holds_gate)
		raw_unlock(&self->gate);
	unlock_all(self, true);
	come_to_rest(self, false);
}

static void perform_all(struct slot *self)
{
	for (unsigned int i = 0; i < self->step_count; i++) {
		self->step = self->steps[i];
		const struct step *step = &shared->list.steps[self->step];
		if (step->op == OP_EXIT) {
			step_begins(self);
			pthread_exit(NULL);
		}
		step_ends(self, perform(self, step));
	}
}

static void *slot_main(void *argument)
{
	struct slot *self = argument;

	self->tid = raw_tid();
	own = self;
	pthread_cleanup_push(leave, self);
	perform_all(self);
	pthread_cleanup_pop(0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	unlock_all(self, false);
	if (come_to_rest(self, true))
		while (!is_round_over)
			raw_wait(&is_round_over, 0, 1000);
	return NULL;
}

int slot_start(struct slot *slot)
{
	/* Until its handle is known no other thread uses it. */
	raw_lock(&slot->gate);
	slot->state = STATE_AT_WORK;
	atomic_fetch_add(&threads_at_work, 1);
	int error = pthread_create(&slot->handle, NULL, slot_main, slot);
	if (error) {
		slot->state = STATE_OVER;
		atomic_fetch_sub(&threads_at_work, 1);
	}
	raw_unlock(&slot->gate);
	return error;
}
