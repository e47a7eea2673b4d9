/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Writes TEK's data about a thread (threads/thread.h) into its record in the table
 * (threads/table.h).
 *
 * All functions need the lock (threads/process.h).
 */
#ifndef TEK_THREADS_RECORD_H
#define TEK_THREADS_RECORD_H

#include "threads/thread.h"

/* Write what is known of the thread into the table. */
void tek__thread_publish(struct tek_thread *thread);

/* The same after a change of the record alone, not of the side record. */
void tek__thread_publish_record(struct tek_thread *thread);

/* Its name was set: by the program, or by exec for the first thread. */
void tek__thread_set_name(struct tek_thread *thread, const char *name);

/* Its role was set by the program: so many bytes and a NUL. */
void tek__thread_set_role(struct tek_thread *thread, const char role[TEK_ROLE_BYTES],
			  unsigned char bytes);

#endif
