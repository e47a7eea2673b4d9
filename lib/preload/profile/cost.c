/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/profile/call.h"
#include "preload/profile/start.h"

#include <string.h>

#define ROUNDS 128
#define TRIES 3

/* The least of several tries, in 1/1024 of ticks for one round: other threads only increase it. */
#define COST(action) \
	({ \
		uint64_t least_ = UINT64_MAX; \
		for (int try_ = 0; try_ < TRIES; try_++) { \
			uint64_t began_ = tek_prof__ticks(); \
			for (int round_ = 0; round_ < ROUNDS; round_++) \
				action; \
			uint64_t took_ = tek_prof__ticks() - began_; \
			least_ = took_ < least_ ? took_ : least_; \
		} \
		least_ * 1024 / ROUNDS; \
	})

static uint64_t more(uint64_t with, uint64_t without)
{
	return with > without ? with - without : 0;
}

/* In the way that it counts itself: what it counted is forgotten again. */
void tek_prof__measure_cost(void)
{
	struct tek_profile_header *file = tek_prof__file;
	struct tek_profile_thread *thread = tek_prof__self.thread;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	uint32_t weight;

	if (!thread)
		return;
	struct tek_profile_self self = tek_prof__self;
	struct tek_profile_thread saved = *thread;
	file->clock_cost = (tek_u32)(COST(tek_prof__ticks()) / 1024);
	uint64_t plain = COST(
		(REAL(pthread_mutex_lock)(&mutex), REAL(pthread_mutex_unlock)(&mutex)));
	file->lock_cost = more(COST((pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex))),
			       plain);
	tek_prof__self.until_timed[TEK_PROFILE_ALLOC] = 2 * TRIES * ROUNDS;
	file->counted_cost = COST(({
		if (tek_prof__enter_counted(TEK_PROFILE_ALLOC, TEK_FRAME, false, &weight))
			tek_prof__leave_counted(thread, TEK_PROFILE_ALLOC, weight);
	}));
	/* As it is in the long run. */
	thread->timed[TEK_PROFILE_FILE] = TEK_PROFILE_ALL_TIMED;
	file->timed_cost = COST(({
		if (tek_prof__enter(TEK_PROFILE_FILE, TEK_FRAME))
			tek_prof__leave(thread, TEK_PROFILE_FILE);
	}));
	file->scheduler_cost = UINT64_MAX;
	for (int i = 0; i < TRIES; i++) {
		uint64_t began = tek_prof__ticks();
		tek_prof__ask_scheduler(thread);
		uint64_t took = (tek_prof__ticks() - began) * 1024;
		if (took < file->scheduler_cost)
			file->scheduler_cost = took;
	}
	memset(tek_prof__file_objects(thread), 0,
	       TEK_PROFILE_OBJECTS * sizeof(struct tek_profile_object));
	saved.serial_ticks = thread->serial_ticks;
	*thread = saved;
	tek_prof__self = self;
}
