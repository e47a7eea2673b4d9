/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The user-level threads of a pthread program in the thread information table of its process (abi/tek_abi.h), for
 * `tek ps` and its kin.  Table, run directory and modules are those of libtek.so (ident/).
 *
 * The table is made when the program creates its first thread: most that never do need none.  A thread's structure
 * keeps its slot when it is used again, so creating and ending a thread look for nothing.  When all slots have an owner,
 * those of ended threads go to whoever needs one; who finds none is counted as lost.
 *
 * A record is written by its thread's creator before anybody else knows the thread, and afterwards by whoever changes
 * something, under a lock that a few slots share.
 */
#ifndef TEK_UTHREAD_POSIX_TABLE_H
#define TEK_UTHREAD_POSIX_TABLE_H

#include "uthread/posix/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the table is there, or was tried to be had. */
extern bool tek__table_is_settled __attribute__((visibility("hidden")));

/* By a user-level thread that is about to create one, not deferred. */
void tek__table_open(void);

/* What is known of a thread at its creation. */
struct tek_table_birth {
	uintptr_t function;  /* that it runs: ident/cxx_thread.h */
	uintptr_t call_site; /* of pthread_create() */
	bool explicit_size;  /* of its stack: the program's choice */
	bool fitted;         /* but TEK chose it */
};

/* All between tek__enter() and tek__leave(). */

/* Before it is launched, or its handle known to anybody.  `threads`: so many there are, with it. */
void tek__table_created(struct tek_uthread *thread, const struct tek_table_birth *birth,
			unsigned int threads);

/* It ends: nobody finds it any more. By itself.  `threads`: so many there are, without it. */
void tek__table_ended(struct tek_uthread *thread, unsigned int threads);

/* thread->name has been set. */
void tek__table_named(struct tek_uthread *thread);

/* Its policy or priority has. */
void tek__table_scheduled(struct tek_uthread *thread);

/* In the child of fork(), first thing: the table is the parent's. */
void tek__table_after_fork(void);

#endif
