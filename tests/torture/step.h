/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What one thread of the torture does next. A list of steps is a whole round: each slot performs
 * its own steps in their order, beside the other slots. Any part of a list is a list, too, so a
 * list that fails can be shrunk.
 *
 * The worker makes a step harmless where the state of its thread does not allow it: see worker.c.
 */
#ifndef TEK_TORTURE_STEP_H
#define TEK_TORTURE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A slot holds one thread a round. The first WORKERS begin by themselves, the rest by `create`. */
enum { WORKERS = 8, SLOTS = 16, MUTEXES = 8, RWLOCKS = 3, CONDS = 3, LOCKS = MUTEXES + RWLOCKS };

/* Mutexes by number; a read-write lock has the number MUTEXES + its own. */
enum {
	MUTEX_NORMAL,
	MUTEX_RECURSIVE,
	MUTEX_ERRORCHECK,
	MUTEX_ADAPTIVE,
	MUTEX_ROBUST,
	MUTEX_SHARED,
	MUTEX_SHARED_ROBUST,
	MUTEX_FRAGILE, /* normal, and a thread may end while it holds it */
};

enum op {
	OP_LOCK,
	OP_TRYLOCK,
	OP_TIMEDLOCK, /* argument: microseconds, as of all timed steps */
	OP_CLOCKLOCK,
	OP_UNLOCK, /* the lock that was locked last */
	OP_UNLOCK_FIRST,
	OP_RDLOCK,
	OP_WRLOCK,
	OP_TIMEDRDLOCK,
	OP_TIMEDWRLOCK,
	OP_COND_WAIT,
	OP_COND_TIMEDWAIT,
	OP_SIGNAL,
	OP_BROADCAST,
	OP_CREATE, /* object: a slot, as of the steps below */
	OP_JOIN,
	OP_CANCEL,
	OP_TEK, /* argument: a priority */
	OP_OTHER,
	OP_BATCH,
	OP_IDLE,
	OP_FIFO,
	OP_RR,
	OP_RESET, /* SCHED_OTHER with reset-on-fork */
	OP_NICE,
	OP_ENTER,
	OP_LEAVE,
	OP_FOR,
	OP_FORK,
	OP_SPAWN,
	OP_EXEC,
	OP_DIE, /* a child process locks the shared robust mutex, and is killed */
	OP_SLEEP,
	OP_SPIN,
	OP_EXIT,
	OP_BREAK, /* a planted fault: a policy by a raw system call, which the judge ignores */
	OPS,
};

/* What a step is about. */
enum object { OBJECT_NONE, OBJECT_MUTEX, OBJECT_RWLOCK, OBJECT_COND, OBJECT_SLOT };

struct step {
	uint8_t slot;
	uint8_t op;
	uint8_t object;
	uint8_t reserved;
	int32_t argument;
};

enum { MOST_STEPS = 4096 };

struct step_list {
	unsigned int count;
	struct step steps[MOST_STEPS];
};

enum object step_object(enum op op);

/* The number of the lock that a step locks, or that a wait for a condition variable locks again. */
int step_lock(const struct step *step);

/* Whether the step changes the scheduling of the slot that it names. */
bool step_sets_policy(enum op op);

/* Whether a thread may be cancelled in this step. */
bool step_is_cancellation_point(enum op op);

/* One line without its end: `3 lock mutex 5`. */
void step_print(const struct step *step, char *text, size_t size);
bool step_parse(const char *line, struct step *step);

bool steps_read(struct step_list *list, FILE *file);
void steps_write(const struct step_list *list, FILE *file);

/* Random lists have no such step from now on. Returns false if there is none. */
bool steps_without(const char *name);

/* A list of random steps. The same seed makes the same list. */
void steps_random(struct step_list *list, uint64_t seed);

/* Adds a fault at a random place. */
void steps_plant(struct step_list *list, uint64_t seed);

#endif
