/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/attributes.h"

#include "ident/process.h"

#include <stdint.h>
#include <string.h>

/*
 * A write takes some ten nanoseconds, unless the writer is taken off its CPU in the
 * middle; then the caller has to wait for the writer's lock.
 */
enum { TRIES = 16 };

/*
 * Each load comes before everything that follows it: the writer's stores are release
 * stores (ident/table.c).
 */
#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_ACQUIRE)

/* As many words of the processor as it takes: not every one of 32 bits can load 64 at once. */
static inline void load_words(void *to, const void *from, size_t bytes)
{
	const uintptr_t *source = from;
	for (size_t i = 0; i < bytes; i += sizeof(*source)) {
		uintptr_t word = LOAD(*source++);
		memcpy((char *)to + i, &word, sizeof(word));
	}
}

bool tek__attributes_copy(struct tek_slot slot, pid_t tid, struct tek_attributes *attributes)
{
	const struct tek_record *record = slot.record;

	for (int attempt = 0; attempt < TRIES; attempt++) {
		tek_u32 seq = LOAD(record->seq);
		if (seq & 1)
			continue;
		if (LOAD(record->tid) != (tek_u32)tid)
			return false;
		size_t role_bytes = LOAD(record->role_bytes);
		if (role_bytes >= TEK_ROLE_BYTES)
			return false;
		load_words(attributes->role, slot.side->role, role_bytes + 1);
		attributes->critical = (LOAD(record->flags) & TEK_FLAG_MARKED) != 0;
		attributes->group = LOAD(record->place) & TEK_PLACE_GROUP_MASK;
		attributes->policy = LOAD(record->policy);
		attributes->priority = LOAD(record->priority);
		attributes->tid = tid;
		load_words(&attributes->created_ns, &record->start_ns, sizeof(record->start_ns));
		attributes->stack_bytes = LOAD(record->stack_pages) * (uint64_t)tek__page_bytes;
		attributes->peak_bytes = LOAD(record->peak_bytes);
		attributes->vm_bytes = 0;
		if (LOAD(record->seq) == seq)
			return true;
	}
	return false;
}

bool tek__attributes_copy_watched(struct tek_slot slot, pid_t tid,
				  struct tek_attributes *attributes)
{
	return !(LOAD(slot.record->flags) & TEK_FLAG_UNWATCHED) &&
	       tek__attributes_copy(slot, tid, attributes);
}

void tek__attributes_decode(const struct tek_record *record, const struct tek_side *side,
			    size_t page_bytes, struct tek_attributes *attributes)
{
	memcpy(attributes->role, side->role, sizeof(attributes->role));
	attributes->role[sizeof(attributes->role) - 1] = '\0';
	attributes->critical = (record->flags & TEK_FLAG_MARKED) != 0;
	attributes->group = record->place & TEK_PLACE_GROUP_MASK;
	attributes->policy = record->policy;
	attributes->priority = record->priority;
	attributes->tid = (pid_t)record->tid;
	attributes->created_ns = record->start_ns;
	attributes->stack_bytes = (uint64_t)record->stack_pages * page_bytes;
	attributes->peak_bytes = record->peak_bytes;
	attributes->vm_bytes = 0;
}
