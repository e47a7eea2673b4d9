/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The attributes of a thread (tek/tek.h) out of its record in the table.
 */
#ifndef TEK_THREADS_ATTRIBUTES_H
#define TEK_THREADS_ATTRIBUTES_H

#include "base/page.h"
#include "threads/process.h"
#include "threads/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tek/tek.h>

/*
 * A write takes some ten nanoseconds, unless the writer is taken off its CPU in the
 * middle; then the caller has to wait for the writer's lock.
 */
enum { TEK_COPY_TRIES = 16 };

/*
 * Each load comes before everything that follows it: the writer's stores are release
 * stores (threads/table_write.c).
 */
#define TEK__LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* As many words of the processor as it takes: not every one of 32 bits can load 64 at once. */
static inline void tek__load_words(void *to, const void *from, size_t bytes)
{
	const uintptr_t *source = from;
	for (size_t i = 0; i < bytes; i += sizeof(*source)) {
		uintptr_t word = TEK__LOAD(*source++);
		memcpy((char *)to + i, &word, sizeof(word));
	}
}

/*
 * A copy of one moment, without the lock.  False, with *attributes undefined, if the slot
 * has not the thread `tid`, or was being written each time it was looked at.
 */
static inline bool tek__attributes_copy(struct tek_slot slot, pid_t tid,
					struct tek_attributes *attributes)
{
	const struct tek_record *record = slot.record;

	for (int attempt = 0; attempt < TEK_COPY_TRIES; attempt++) {
		tek_u32 seq = TEK__LOAD(record->seq);
		if (seq & 1)
			continue;
		if (TEK__LOAD(record->tid) != (tek_u32)tid)
			return false;
		size_t role_bytes = TEK__LOAD(record->role_bytes);
		if (role_bytes >= TEK_ROLE_BYTES)
			return false;
		attributes->role[0] = '\0'; /* in the side record is an earlier thread's, then */
		if (role_bytes > 0)
			tek__load_words(attributes->role, slot.side->role, role_bytes + 1);
		tek_u8 flags = TEK__LOAD(record->flags);
		attributes->critical = (flags & TEK_FLAG_MARKED) != 0;
		attributes->group = TEK__LOAD(record->place) & TEK_PLACE_GROUP_MASK;
		attributes->policy = TEK__LOAD(record->policy);
		attributes->priority = TEK__LOAD(record->priority);
		if (__builtin_expect(attributes->policy == TEK_SCHED_POLICY, 0) &&
		    !(flags & TEK_FLAG_ASKED)) {
			attributes->policy = TEK__LOAD(slot.side->own_policy);
			attributes->priority = TEK__LOAD(slot.side->own_priority);
		}
		attributes->tid = tid;
		tek__load_words(&attributes->created_ns, &record->start_ns,
				sizeof(record->start_ns));
		attributes->stack_bytes = TEK__LOAD(record->stack_pages) *
					  (uint64_t)tek__page_bytes;
		attributes->peak_bytes = TEK__LOAD(record->peak_bytes);
		attributes->vm_bytes = 0;
		if (TEK__LOAD(record->seq) == seq)
			return true;
	}
	return false;
}

/* The same for a thread that runs its destructor; false for any other. */
static inline bool tek__attributes_copy_watched(struct tek_slot slot, pid_t tid,
						struct tek_attributes *attributes)
{
	return slot.record && !(TEK__LOAD(slot.record->flags) & TEK_FLAG_UNWATCHED) &&
	       tek__attributes_copy(slot, tid, attributes);
}

/* The same from copies of both records, of a table that counts in pages of page_bytes. */
void tek__attributes_decode(const struct tek_record *record, const struct tek_side *side,
			    size_t page_bytes, struct tek_attributes *attributes);

/*
 * A thread of another process, from that process's table.  Returns 0 or an error
 * number as tek_tid_get_attributes() has them.
 */
int tek__attributes_of_other(pid_t tid, struct tek_attributes *attributes);

#endif
