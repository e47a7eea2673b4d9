/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Writing a slot: one writer under the lock, readers without it. */
#include "threads/table.h"

#include "threads/put_words.h"

/*
 * The sequence lock. The holder of the process's lock is the one writer. All stores are release
 * stores, so that they become visible in their order. Readers load with acquire (abi/tek_table.h).
 * ThreadSanitizer understands this; it does not understand fences.
 */
static tek_u32 begin_write(struct tek_slot slot)
{
	tek_u32 seq = __atomic_load_n(&slot.record->seq, __ATOMIC_RELAXED);
	__atomic_store_n(&slot.record->seq, seq + 1, __ATOMIC_RELAXED);
	return seq;
}

static void end_write(struct tek_slot slot, tek_u32 seq)
{
	__atomic_store_n(&slot.record->seq, seq + 2, __ATOMIC_RELEASE);
}

static void write_record(struct tek_slot slot, const struct tek_record *record)
{
	/* By fields: a load of words that were just put together from bytes stalls. */
#define STORE(field) __atomic_store_n(&slot.record->field, record->field, __ATOMIC_RELEASE)
	STORE(tid);
	tek__put_words(&slot.record->start_ns, &record->start_ns, sizeof(record->start_ns));
	tek__put_words(&slot.record->start_routine, &record->start_routine,
		       sizeof(record->start_routine));
	STORE(stack_pages);
	STORE(peak_bytes);
	STORE(bound_pages);
	STORE(role_bytes);
	STORE(policy);
	STORE(priority);
	STORE(place);
	STORE(flags);
#undef STORE
}

void tek__table_write(struct tek_slot slot, const struct tek_record *record,
		      const struct tek_side *side, const char *role)
{
	tek_u32 seq = begin_write(slot);
	write_record(slot, record);
	if (side) {
		tek__put_words(slot.side, side, offsetof(struct tek_side, role));
		/* The engine writes the fields before it by themselves. */
		__atomic_store_n(&slot.side->lifted_for, side->lifted_for, __ATOMIC_RELAXED);
	}
	/* In whole words: readers do not look behind its end. */
	if (role && record->role_bytes)
		tek__put_words(slot.side->role, role, (record->role_bytes + 8u) / 8 * 8);
	end_write(slot, seq);
}

/* The other fields keep their values, which are no longer valid. */
void tek__table_clear(struct tek_slot slot)
{
	tek_u32 seq = begin_write(slot);
	__atomic_store_n(&slot.record->tid, 0, __ATOMIC_RELEASE);
	end_write(slot, seq);
}
