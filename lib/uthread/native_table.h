/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The entries of the table (uthread/table.h) for threads of native programs. Creating one costs
 * less than writing a record, and there may be many more than records. So they enter the table when
 * they first wait, yield or are preempted, as long as there is room: a thread that only runs and
 * ends costs nothing. The file has a name of its own, because a program under `tek run` has a table
 * of its kernel threads, too.
 */
#ifndef TEK_UTHREAD_NATIVE_TABLE_H
#define TEK_UTHREAD_NATIVE_TABLE_H

/* When the engine starts: removes a table that an earlier program left under this pid. */
void tek_ut__native_table_start(void);

/* By a user-level thread that is about to create one, not deferred; once in a process. */
void tek_ut__native_table_open(void);

#endif
