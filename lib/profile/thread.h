/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of a profiled process, and the own data of each.
 *
 * Life: pthread_create() gives a thread its number and its part of the file; it counts there from
 * its first moment, and until the last of its destructors that we know of. A thread that was not
 * created through TEK is found at its first call. Calls after its end are not counted.
 *
 * Only a thread itself writes its own data. Nothing here takes a lock or allocates.
 */
#ifndef TEK_PROFILE_THREAD_H
#define TEK_PROFILE_THREAD_H

#include "profile/process.h"
#include "tek_profile.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEK_PROFILE_HELD 8

/* A lock that is held, and how long is measured. */
struct tek_profile_held {
	const void *object;
	struct tek_profile_object *counted;
	uint64_t since;
	uint32_t weight; /* for how many acquisitions it stands */
};

/* The own data of the running thread. */
struct tek_profile_self {
	struct tek_profile_thread *thread; /* NULL: it does not count */
	struct tek_profile_block *block;   /* where its next wait is written; NULL: none yet */
	const char *frame;                 /* of the call that it is in */
	struct tek_profile_place *place;   /* where it says that it waits; NULL: nowhere */
	uint32_t number;
	uint32_t blocks;     /* that it had */
	bool is_over;        /* its end was seen */
	uint8_t held;        /* of `holds` in use */
	uint8_t hold_in;     /* locks until the next one that is measured, */
	uint8_t hold_stands; /* and for how many that stands */
	uint32_t objects;    /* struct tek_profile_object that it uses */
	uint32_t random;
	/* Calls that are only counted until the next timed one, and for how many that stands. */
	uint32_t until_timed[TEK_PROFILE_PARTS];
	uint32_t stands_for[TEK_PROFILE_PARTS];
	/*
	 * The same of calls for files around which it is asked how long the thread ran; then the
	 * weight of the call that it is in, 0: it is not asked, and how long it had run before.
	 */
	uint32_t until_sampled;
	uint32_t sample_stands;
	uint32_t sample_weight;
	uint64_t sample_run;
	/* Calls by stream that went to the kernel although the buffer had a lot. */
	uint32_t long_lines;
	/*
	 * Waits until the next one around which the scheduler is asked, from one to the next, and
	 * when that was.
	 */
	uint32_t until_asked;
	uint32_t ask_each;
	uint64_t asked;
	struct tek_profile_held holds[TEK_PROFILE_HELD];
};

extern _Thread_local struct tek_profile_self tek_prof__self
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

/* The calling thread's own; NULL where it does not count. */
struct tek_profile_thread *tek_prof__adopt(void);

static inline struct tek_profile_thread *tek_prof__thread(void)
{
	struct tek_profile_thread *thread = tek_prof__self.thread;
	if (__builtin_expect(thread != NULL, 1) && tek_prof__process_is_known())
		return thread;
	return tek_prof__adopt();
}

/* Any number below that. */
static inline uint32_t tek_prof__random(uint32_t below)
{
	struct tek_profile_self *self = &tek_prof__self;

	self->random = self->random * 1664525u + 1013904223u;
	return (self->random >> 16) % below;
}

/* Once, before the first one begins. */
void tek_prof__threads_prepare(void);

/* From now on threads are found at their first call: the process's first one has its number. */
void tek_prof__threads_open(void);

/* A number and a place for a thread that is to be created; 0: there is none. */
uint32_t tek_prof__thread_new(void);

/* It was not created after all: the next one may have its number. */
void tek_prof__thread_unused(uint32_t number);

/* The calling thread begins, with that number. */
void tek_prof__thread_begin(uint32_t number);

/* The calling thread is the only one of its process, which has a new file. */
void tek_prof__thread_begin_first(void);

/* A thread of this process was given a name: one that is killed does not say its own. */
void tek_prof__thread_named(pthread_t handle, const char *name);

/* It ends; may be called twice. */
void tek_prof__thread_end(void);

/* The process ends, or becomes another program: what is to be noted of its threads. */
void tek_prof__threads_last(void);

/* Reads what the scheduler knows of a thread of this process, keeping errno. */
bool tek_prof__scheduler(uint32_t tid, uint64_t *run_ns, uint64_t *delay_ns);

/* And writes it down. */
void tek_prof__ask_scheduler(struct tek_profile_thread *thread);

#endif
