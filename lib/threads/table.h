/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread information table of this process (abi/tek_table.h, tek-2020 IV-C): where it lies and
 * how a slot is written. The threads in it: threads/thread.h.
 *
 * All functions need the lock (threads/process.h) unless noted otherwise.
 */
#ifndef TEK_THREADS_TABLE_H
#define TEK_THREADS_TABLE_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>

/* Where one slot lies in the shared memory. */
struct tek_slot {
	struct tek_record *record;
	struct tek_side *side;
};

/*
 * Make slot `index` usable and say where it lies.  The pointers stay valid as
 * long as the process image.  False when there is no memory for it or index is
 * not below TEK_MAX_SLOTS.
 */
bool tek__table_slot(unsigned int index, struct tek_slot *slot);

/* Where a slot lies that was made usable; NULLs in the child of a fork since. Needs no lock. */
struct tek_slot tek__table_at(unsigned int index);

/*
 * Write a slot so that no reader can take half of it for the whole: the record, what is not
 * NULL of the side record, apart from its role, and the role.
 */
void tek__table_write(struct tek_slot slot, const struct tek_record *record,
		      const struct tek_side *side, const char *role);

/* Empty a slot. */
void tek__table_clear(struct tek_slot slot);

/*
 * List those of the files that the table, if there is one, does not list yet.  `program`: the
 * number, from 1, of the one that is the program itself; 0: none is known to be.
 */
void tek__table_list_modules(const struct tek_module *modules, unsigned int count,
			     unsigned int program);

/*
 * Make room for the kind with this number, from 1, and say where it lies, as with slots; NULL
 * if there is none.
 */
struct tek_kind *tek__table_new_kind(unsigned int number);

/* Where a kind lies that was made; NULL in the child of a fork since. Needs no lock. */
struct tek_kind *tek__table_kind_at(unsigned int number);

/* Write a kind, apart from what belongs to tek__table_kind_overflowed(), and count it. */
void tek__table_write_kind(unsigned int number, const struct tek_kind *kind);

/*
 * One of its threads ran out of a stack of so many bytes. In a signal handler: no lock,
 * async-signal-safe.
 */
void tek__table_kind_overflowed(unsigned int number, size_t bytes);

/*
 * Make room for so many workers of user-level threads, list them, and say where they lie; NULL:
 * there is no memory.
 */
struct tek_worker_place *tek__table_list_workers(unsigned int count);

/* The header, for its counters; NULL while there is no table. */
struct tek_table_header *tek__table_header(void);

/* Set a counter of the header. */
static inline void tek__table_count(tek_u32 *counter, tek_u32 value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/*
 * In the child of a fork: empty private memory replaces the parent's table. A function that was
 * interrupted by a signal handler that forked may still access that table. Needs no lock.
 */
void tek__table_make_private(void);

/* The same, and the next slot is one of a new table. */
void tek__table_forget(void);

/*
 * Remove a table file that an earlier program left under this pid (exec), or leave it as ended.
 * Needs no lock.
 */
void tek__table_remove_stale(void);

/*
 * The program is about to be replaced (exec): the table's file must not be taken for that of
 * its successor; and again, if it was not replaced.
 */
void tek__table_hide(void);
void tek__table_show(void);

/*
 * The process ends: its table's file is removed. It stays as PID-NUMBER.ended if it has stack kinds
 * and `tek run` waits for them. The memory stays usable.
 */
void tek__table_end(void);

#endif
