/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The data that the parts of the thread information table share: table.c has its memory,
 * table_file.c its file's names, table_lists.c its lists. Callers of the table include
 * threads/table.h.
 *
 * All of it needs the lock (threads/process.h), in the child of a fork apart.
 */
#ifndef TEK_THREADS_TABLE_STATE_H
#define TEK_THREADS_TABLE_STATE_H

#include <stdbool.h>
#include <stddef.h>

struct tek_table_state {
	char *base;          /* newest mapping, from offset 0; older ones stay mapped */
	unsigned int chunks; /* chunks within that mapping */
	unsigned int ready;  /* slots with memory */
	bool failed;         /* no table can be had; not tried again */
	unsigned int kinds;  /* of threads, for which there is room */
	bool shared;         /* it is a file's memory, which may run out */
	bool awaited;    /* a process waits for it to end: programs overwrite their environment */
	char path[512];  /* its file's name; empty: none */
	char ended[512]; /* the name it has once an exec has succeeded; empty: as it was */
};

extern struct tek_table_state tek__table;

/*
 * Have the kernel provide the memory now; false if it has none. A page that a full tmpfs cannot
 * provide would kill the program with SIGBUS at the first access.
 */
bool tek__table_populate(void *address, size_t bytes);

/* Remove a table that an earlier program left under this pid, or leave it as ended. */
void tek__table_retire(const char *path);

#endif
