/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The user-level threads of a program in the thread table of its process
 * (abi/tek_table.h), for `tek ps` and its kin.  Table, run directory and modules are those of
 * libtek.so (threads/).
 *
 * The table is made when the program creates its first thread: a program without threads needs
 * none. A thread's structure keeps its slot on reuse, so creating and ending a thread search
 * nothing. When all slots have an owner, slots of ended threads are reassigned; a thread without a
 * slot is counted as lost.
 *
 * A thread's creator writes the record before any other thread knows the thread. Afterwards the
 * thread that changes a field writes it, under a lock that a few slots share.
 */
#ifndef TEK_UTHREAD_TABLE_H
#define TEK_UTHREAD_TABLE_H

#include "tek_abi.h"
#include "uthread/thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the table exists, or could not be made. */
extern bool tek_ut__table_is_settled __attribute__((visibility("hidden")));

/* Sources of a thread's data: posix/teller.c, native_table.c. */
struct tek_table_teller {
	void (*set_scheduling)(struct tek_record *record, const struct tek_uthread *thread);
	void (*set_stack)(struct tek_record *record, struct tek_side *side,
			  const struct tek_uthread *thread);
	/* TEK_ROLE_BYTES that stay; NULL: no thread has one. */
	const char *(*role_of)(const char *name);
	/* shown.h; NULL: threads are entered when they are created, and when they end. */
	void (*newcomer)(struct tek_uthread *thread);
	void (*gone)(struct tek_uthread *thread);
};

/*
 * Sets tek__owner, which the parts of libtek.so ask. Idempotent. A constructor calls it first;
 * tek_ut__table_open() does so too, so that the linker takes it from an archive.
 */
void tek_ut__table_process_start(void);

/* By a user-level thread that is about to create one, not deferred. */
void tek_ut__table_open(const struct tek_table_teller *teller);

/* The data of a thread at its creation. */
struct tek_table_birth {
	uintptr_t function;  /* that it runs: base/start_routine.h */
	uintptr_t call_site; /* of pthread_create(); 0: not known */
	uint64_t creator;    /* 0: not known */
	bool explicit_size;  /* of its stack: the program's choice */
	bool fitted;         /* but TEK chose it */
};

/* All between tek_ut__enter() and tek_ut__leave(). */

/* Before it is launched, or its handle known to any thread. `threads`: the number, with it. */
void tek_ut__table_created(struct tek_uthread *thread, const struct tek_table_birth *birth,
			   unsigned int threads);

/* It ends and leaves the table. By itself. `threads`: the number, without it. */
void tek_ut__table_ended(struct tek_uthread *thread, unsigned int threads);

/* thread->name has been set. */
void tek_ut__table_named(struct tek_uthread *thread);

/* Its policy or priority has been set. */
void tek_ut__table_scheduled(struct tek_uthread *thread);

/* In the child of fork(), first thing: the table is the parent's. */
void tek_ut__table_after_fork(void);

#endif
