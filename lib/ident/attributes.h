/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The attributes of a thread (tek/tek.h) out of its record in the table.
 */
#ifndef TEK_IDENT_ATTRIBUTES_H
#define TEK_IDENT_ATTRIBUTES_H

#include "ident/table.h"

#include <stdbool.h>
#include <tek/tek.h>

/*
 * A copy of one moment, without the lock.  False, with *attributes undefined, if the slot
 * has not the thread `tid`, or was being written each time it was looked at.
 */
bool tek__attributes_copy(struct tek_slot slot, pid_t tid, struct tek_attributes *attributes);

/* The same for a thread whose end would have been noticed; false for any other. */
bool tek__attributes_copy_watched(struct tek_slot slot, pid_t tid,
				  struct tek_attributes *attributes);

/* From copies of both records, of a table that counts in pages of page_bytes. */
void tek__attributes_decode(const struct tek_record *record, const struct tek_side *side,
			    size_t page_bytes, struct tek_attributes *attributes);

/*
 * A thread of another process, from that process's table.  Returns 0 or an error
 * number as tek_tid_get_attributes() has them.
 */
int tek__attributes_of_other(pid_t tid, struct tek_attributes *attributes);

#endif
