/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The slot in the table of the thread with a kernel id: a hash table with linear probing that is
 * changed under the lock and read without it.
 *
 * A reader that meets a change may miss an entry, or get the slot of another thread: so it compares
 * the id in the slot's record (threads/table.h), and queries again under the lock when it found
 * nothing. When the table grows the old one stays where it is.
 */
#ifndef TEK_THREADS_INDEX_H
#define TEK_THREADS_INDEX_H

#include <stdbool.h>
#include <sys/types.h>

/* Needs the lock. Without memory the id is not in the index, which is incomplete from then on. */
void tek__index_insert(pid_t tid, unsigned int slot);

/* Take the id out if it leads to this slot. Needs the lock. */
void tek__index_remove(pid_t tid, unsigned int slot);

/* From anywhere, without the lock. */
bool tek__index_find(pid_t tid, unsigned int *slot);

/* Whether an id that is not found may be there all the same. Needs the lock. */
bool tek__index_is_incomplete(void);

/* In the child of a fork. Needs no lock. */
void tek__index_forget(void);

#endif
