/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The parts of a thread's time. A call is in one part (TEK_PROFILE_SYNC, ...). Nested calls count
 * for the outermost one: malloc() inside fopen() is file, the lock inside malloc() is allocator.
 *
 *   timed       Each call is timed: calls that wait, and calls that go into the kernel. Around a
 *               few calls for files the profiler asks the kernel how long the thread ran. During
 *               the rest of the call it was blocked.
 *   counted     Each call is counted, and a few are timed, which stand for all: malloc() and calls
 *               of stdio, which take less time than reading the clock. The first calls of a thread
 *               are all timed, and so are calls that are known to take long.
 *   a wait      It is timed, and meanwhile the thread counts as one that does nothing.
 *
 * None of this takes a lock, allocates, or changes errno.
 */
#ifndef TEK_PROFILE_ACCOUNT_H
#define TEK_PROFILE_ACCOUNT_H

#include "profile/clock.h"
#include "profile/file.h"
#include "profile/thread.h"

/* So many calls are all timed, then one of so many on average. */
#define TEK_PROFILE_ALL_TIMED 256
#define TEK_PROFILE_TIMED_EACH 32

/*
 * Around the first calls for files, too, and then one of so many, the thread's CPU time is asked
 * for.
 */
#define TEK_PROFILE_SAMPLED_EACH 8

/* The calling thread has left the call that its last one was made from, by a jump. */
void tek_prof__left(struct tek_profile_thread *thread);

/* Whether a call of the calling thread, with that frame, counts: it is about to be in that part. */
static inline struct tek_profile_thread *tek_prof__call(tek_u32 part, const void *frame)
{
	struct tek_profile_thread *thread = tek_prof__thread();

	if (__builtin_expect(!thread, 0))
		return NULL;
	if (thread->inside) {
		/*
		 * Calls that it makes have frames below its own. A call at the same place or above
		 * was made by one of its callers: it did not return, but was left by longjmp().
		 */
		if (__builtin_expect((const char *)frame < tek_prof__self.frame, 1))
			return NULL;
		tek_prof__left(thread);
	}
	tek_prof__self.frame = frame;
	thread->calls[part]++;
	return thread;
}

/* It is in that part, since then; 0: the time was not read. */
static inline void tek_prof__inside(struct tek_profile_thread *thread, tek_u32 part, uint64_t since)
{
	thread->since_ticks = since;
	/* A signal handler between these two finds a call that has just begun. */
	__atomic_signal_fence(__ATOMIC_RELEASE);
	thread->inside = part;
}

/*
 * Whether it is still the calling thread's: not in a child that a signal handler forked out of the
 * call.
 */
static inline bool tek_prof__is_own(const struct tek_profile_thread *thread)
{
	return __builtin_expect(thread == tek_prof__self.thread, 1) && tek_prof__process_is_known();
}

/* A call for files begins that is timed: its turn to ask how long the thread runs may have come. */
void tek_prof__sample(struct tek_profile_thread *thread);

/* It was asked around the call that took so many ticks. */
void tek_prof__sampled(struct tek_profile_thread *thread, uint64_t ticks);

/* As tek_prof__call(); now it is in that part. */
static inline struct tek_profile_thread *tek_prof__enter(tek_u32 part, const void *frame)
{
	struct tek_profile_thread *thread = tek_prof__call(part, frame);

	if (__builtin_expect(!thread, 0))
		return NULL;
	if (part == TEK_PROFILE_FILE)
		tek_prof__sample(thread);
	tek_prof__inside(thread, part, tek_prof__ticks());
	return thread;
}

static inline bool tek_prof__is_alone(void)
{
	return (__atomic_load_n(&tek_prof__file->active, __ATOMIC_RELAXED) & 0xffff) == 1;
}

/* A call that took so long, and stands for so many. */
static inline void tek_prof__add(struct tek_profile_thread *thread, tek_u32 part, uint64_t ticks,
				 uint32_t weight)
{
	thread->ticks[part] += ticks * weight;
	if (__builtin_expect(ticks >= tek_prof__ticks_of_ns(TEK_PROFILE_LONG_NS), 0))
		thread->long_ticks[part] += ticks * weight;
	if (tek_prof__is_alone())
		thread->serial_part[part] += ticks * weight;
}

/* It returns.  Returns the ticks that it took. */
static inline uint64_t tek_prof__leave(struct tek_profile_thread *thread, tek_u32 part)
{
	if (!tek_prof__is_own(thread))
		return 0;
	uint64_t now = tek_prof__ticks();
	uint64_t took = now > thread->since_ticks ? now - thread->since_ticks : 0;

	thread->inside = 0;
	thread->timed[part]++;
	if (part == TEK_PROFILE_FILE && tek_prof__self.sample_weight)
		tek_prof__sampled(thread, took);
	tek_prof__add(thread, part, took, 1);
	return took;
}

/* The next timed one of the calls that are counted has come: for how many it stands. */
uint32_t tek_prof__timed(struct tek_profile_thread *thread, tek_u32 part);

/* One more that is counted: for how many it stands, 0 if it is not timed. */
static inline uint32_t tek_prof__count(struct tek_profile_thread *thread, tek_u32 part)
{
	uint32_t *until = &tek_prof__self.until_timed[part];

	if (__builtin_expect(*until == 0, 0))
		return tek_prof__timed(thread, part);
	(*until)--;
	return 0;
}

/*
 * The same for a call that may only be counted; *weight says for how many it stands, 0: it is not
 * timed.  `is_long`: it is known to take long, and is always timed.
 */
static inline struct tek_profile_thread *tek_prof__enter_counted(tek_u32 part, const void *frame,
								 bool is_long, uint32_t *weight)
{
	struct tek_profile_thread *thread = tek_prof__call(part, frame);

	if (__builtin_expect(!thread, 0))
		return NULL;
	*weight = is_long ? 1 : tek_prof__count(thread, part);
	tek_prof__inside(thread, part, *weight ? tek_prof__ticks() : 0);
	return thread;
}

/* A call that was timed returns, and stands for so many. */
void tek_prof__leave_timed(struct tek_profile_thread *thread, tek_u32 part, uint32_t weight);

static inline void tek_prof__leave_counted(struct tek_profile_thread *thread, tek_u32 part,
					   uint32_t weight)
{
	/* Where it is no longer the thread's own, these writes are never read. */
	if (__builtin_expect(weight != 0, 0))
		tek_prof__leave_timed(thread, part, weight);
	else
		thread->inside = 0;
}

/* A wait that is under way. */
struct tek_profile_waiting {
	struct tek_profile_thread *thread; /* NULL: it does not count */
	uint64_t began;
	uint64_t delay_ns; /* as the scheduler had it then */
	const void *object;
	bool is_asked;
	bool is_noted; /* the thread that releases it is to record that */
};

/* One begins: for that part, an object and a TEK_PROFILE_MUTEX, ... . */
struct tek_profile_waiting tek_prof__wait(tek_u32 part, const void *object, const void *frame);

/* And there: of a wait that does not end it is known which one it is. */
static inline void tek_prof__waits_for(const struct tek_profile_waiting *waiting, const void *site,
				       tek_u32 kind)
{
	struct tek_profile_thread *thread = waiting->thread;

	if (!thread)
		return;
	thread->waits_for = (uintptr_t)waiting->object;
	thread->waits_at = (uintptr_t)site;
	thread->wait_kind = kind;
}

/* It is over; returns how long it was.  `counted`: where it is added to, or NULL. */
uint64_t tek_prof__waited(struct tek_profile_waiting *waiting, tek_u32 part, tek_u32 kind,
			  const void *site, struct tek_profile_object *counted);

/* For __attribute__((cleanup)): a cancelled thread does not return from its wait. */
static inline void tek_prof__wait_cleanup(struct tek_profile_waiting *waiting)
{
	if (__builtin_expect(waiting->thread != NULL, 0) && tek_prof__is_own(waiting->thread))
		tek_prof__left(waiting->thread);
}

#define TEK_PROFILE_WAITING \
	struct tek_profile_waiting waiting_ __attribute__((cleanup(tek_prof__wait_cleanup)))

/* The calling thread joins those that do something, and leaves them. */
void tek_prof__active(uint32_t number, uint64_t now);
void tek_prof__inactive(uint32_t number, uint64_t now);

#endif
