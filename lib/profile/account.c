/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/account.h"

#include "profile/release.h"
#include "profile/waits.h"

/* Waits for other threads of at least this length are recorded one by one, and idle ones. */
#define NOTED_NS 1000
#define NOTED_IDLE_NS 100000

/*
 * The scheduler is asked around a wait about once in so long: it takes some microseconds, and many
 * threads wait at the same time.
 */
#define ASK_NS 10000000
#define MOST_ASK_EACH 65536

#define COUNT_BITS 16
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t in_active(uint32_t number)
{
	return (uint64_t)number << COUNT_BITS | 1;
}

/* The time in which only that thread did something is over. */
static void end_serial(uint32_t number, uint64_t now)
{
	struct tek_profile_header *file = tek_prof__file;
	/*
	 * The thread that made it the only one stores the time after its change of `active`. So the
	 * time may not be here yet: then the wait was a moment only.
	 */
	uint64_t since = __atomic_exchange_n(&file->serial_since, 0, __ATOMIC_RELAXED);

	if (!since || number - 1 >= TEK_PROFILE_MAX_THREADS)
		return;
	struct tek_profile_thread *thread = tek_prof__file_thread(number);
	/* Or it comes later than another one's: since the thread waited last it is right. */
	uint64_t active = __atomic_load_n(&thread->active_ticks, __ATOMIC_RELAXED);
	if (since < active)
		since = active;
	if (since < now)
		__atomic_fetch_add(&thread->serial_ticks, now - since, __ATOMIC_RELAXED);
}

/*
 * The number of active threads and the sum of their thread numbers change as one word. So each
 * change shows which thread it leaves alone, and which one was alone before.
 */
void tek_prof__active(uint32_t number, uint64_t now)
{
	struct tek_profile_header *file = tek_prof__file;
	__atomic_store_n(&tek_prof__file_thread(number)->active_ticks, now, __ATOMIC_RELAXED);
	uint64_t before = __atomic_fetch_add(&file->active, in_active(number), __ATOMIC_RELAXED);

	if ((before & COUNT_MASK) == 0)
		__atomic_store_n(&file->serial_since, now, __ATOMIC_RELAXED);
	else if ((before & COUNT_MASK) == 1)
		end_serial((uint32_t)(before >> COUNT_BITS), now);
}

void tek_prof__inactive(uint32_t number, uint64_t now)
{
	struct tek_profile_header *file = tek_prof__file;
	uint64_t left = __atomic_sub_fetch(&file->active, in_active(number), __ATOMIC_RELAXED);

	if ((left & COUNT_MASK) == 1)
		__atomic_store_n(&file->serial_since, now, __ATOMIC_RELAXED);
	else if ((left & COUNT_MASK) == 0)
		end_serial(number, now);
}

/* It does not wait any more, whether the wait came to its end or not. */
static void withdraw(void)
{
	struct tek_profile_self *self = &tek_prof__self;

	if (self->place)
		__atomic_fetch_sub(&self->place->waiters, 1, __ATOMIC_RELAXED);
	self->place = NULL;
}

void tek_prof__left(struct tek_profile_thread *thread)
{
	tek_u32 part = thread->inside;

	withdraw();
	if (thread->is_waiting) {
		thread->is_waiting = 0;
		tek_prof__active(tek_prof__self.number, tek_prof__ticks());
	}
	if (part && part < TEK_PROFILE_PARTS && thread->since_ticks)
		tek_prof__leave(thread, part);
	thread->inside = 0;
}

/*
 * Not in step with what the program does: from half to one and a half times as many, the last of
 * which is meant.
 */
static uint32_t among(uint32_t each)
{
	return each / 2 + tek_prof__random(each + 1);
}

uint32_t tek_prof__timed(struct tek_profile_thread *thread, tek_u32 part)
{
	struct tek_profile_self *self = &tek_prof__self;
	uint32_t stands_for = self->stands_for[part] ? self->stands_for[part] : 1;

	self->stands_for[part] = 1;
	if (thread->calls[part] >= TEK_PROFILE_ALL_TIMED)
		self->stands_for[part] = among(TEK_PROFILE_TIMED_EACH);
	self->until_timed[part] = self->stands_for[part] - 1;
	return stands_for;
}

void tek_prof__sample(struct tek_profile_thread *thread)
{
	struct tek_profile_self *self = &tek_prof__self;

	self->sample_weight = 0;
	if (self->until_sampled) {
		self->until_sampled--;
		return;
	}
	self->sample_weight = self->sample_stands ? self->sample_stands : 1;
	self->sample_stands = 1;
	if (thread->timed[TEK_PROFILE_FILE] >= TEK_PROFILE_ALL_TIMED)
		self->sample_stands = among(TEK_PROFILE_SAMPLED_EACH);
	self->until_sampled = self->sample_stands - 1;
	self->sample_run = tek_prof__run_ns();
}

void tek_prof__sampled(struct tek_profile_thread *thread, uint64_t ticks)
{
	struct tek_profile_self *self = &tek_prof__self;
	uint64_t ran = tek_prof__run_ns() - self->sample_run;

	thread->sampled[TEK_PROFILE_FILE] += ticks * self->sample_weight;
	thread->sampled_file_run += ran * self->sample_weight;
	self->sample_weight = 0;
}

void tek_prof__leave_timed(struct tek_profile_thread *thread, tek_u32 part, uint32_t weight)
{
	if (!tek_prof__is_own(thread))
		return;
	uint64_t now = tek_prof__ticks();
	uint64_t took = now > thread->since_ticks ? now - thread->since_ticks : 0;
	/* The cost of the clock itself would count for all calls. */
	uint64_t clock = tek_prof__file->clock_cost;

	thread->inside = 0;
	thread->timed[part]++;
	took = took > clock ? took - clock : 0;
	/* An interrupted call stands for itself only: the other calls were not interrupted. */
	if (took >= tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS))
		weight = 1;
	tek_prof__add(thread, part, took, weight);
}

/* Whether the scheduler is asked around this wait. */
static bool is_asked(struct tek_profile_thread *thread, uint64_t now)
{
	struct tek_profile_self *self = &tek_prof__self;

	if (self->until_asked) {
		self->until_asked--;
		return false;
	}
	if (now - self->asked < tek_prof__ticks_of_ns(ASK_NS)) {
		if (self->ask_each < MOST_ASK_EACH)
			self->ask_each = self->ask_each * 2 + 1;
	} else {
		self->ask_each /= 2;
	}
	self->asked = now;
	self->until_asked = self->ask_each;
	tek_prof__ask_scheduler(thread);
	return true;
}

struct tek_profile_waiting tek_prof__wait(tek_u32 part, const void *object, const void *frame)
{
	struct tek_profile_waiting waiting = {.thread = tek_prof__enter(part, frame)};
	struct tek_profile_thread *thread = waiting.thread;

	if (!thread)
		return waiting;
	waiting.began = thread->since_ticks;
	waiting.object = object;
	if (object) {
		tek_prof__self.place = tek_prof__place(object);
		__atomic_fetch_add(&tek_prof__self.place->waiters, 1, __ATOMIC_RELAXED);
	}
	/* Of files it is known how long the thread ran in them. */
	waiting.is_asked = part != TEK_PROFILE_FILE && is_asked(thread, waiting.began);
	waiting.delay_ns = thread->delay_ns;
	thread->is_waiting = 1;
	tek_prof__inactive(tek_prof__self.number, waiting.began);
	return waiting;
}

/*
 * True if a wait is recorded one by one. Waits in files are known by the sum of files, which other
 * records carry.
 */
static bool is_noted(tek_u32 part, uint64_t took)
{
	if (part == TEK_PROFILE_FILE)
		return false;
	return took >= tek_prof__ticks_of_ns(part == TEK_PROFILE_IDLE ? NOTED_IDLE_NS : NOTED_NS);
}

uint64_t tek_prof__waited(struct tek_profile_waiting *waiting, tek_u32 part, tek_u32 kind,
			  const void *site, struct tek_profile_object *counted)
{
	struct tek_profile_thread *thread = waiting->thread;

	waiting->thread = NULL;
	if (!thread || !tek_prof__is_own(thread))
		return 0;
	withdraw();
	/* By a jump out of a signal handler the thread may be elsewhere by now. */
	if (!thread->is_waiting)
		return 0;
	uint64_t now = tek_prof__ticks();
	uint64_t took = now > waiting->began ? now - waiting->began : 0;
	thread->is_waiting = 0;
	tek_prof__active(tek_prof__self.number, now);
	if (waiting->is_asked) {
		tek_prof__ask_scheduler(thread);
		thread->sampled[part] += took;
		thread->sampled_delay[part] += thread->delay_ns - waiting->delay_ns;
	}
	if (is_noted(part, took)) {
		struct tek_profile_wait wait = {
			.begin_ticks = waiting->began,
			.end_ticks = now,
			.object = (uintptr_t)waiting->object,
			.site = (uintptr_t)site,
			.file_ticks = thread->ticks[TEK_PROFILE_FILE],
			.alloc_ticks = thread->ticks[TEK_PROFILE_ALLOC],
			.kind = kind,
		};
		uint64_t released = 0;
		if (waiting->object)
			wait.waker = tek_prof__releaser(waiting->object, waiting->began, &released);
		wait.released_ticks = released;
		tek_prof__waits_add(thread, &wait);
	}
	thread->inside = 0;
	thread->timed[part]++;
	thread->ticks[part] += took;
	if (part == TEK_PROFILE_FILE) {
		if (tek_prof__self.sample_weight)
			tek_prof__sampled(thread, took);
		if (took >= tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS))
			thread->long_ticks[part] += took;
	}
	if (counted) {
		counted->wait_ticks += took;
		if (took > counted->wait_most)
			counted->wait_most = took;
	}
	return took;
}
