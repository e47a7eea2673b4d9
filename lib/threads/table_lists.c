/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lists in the table beside the threads: kinds, modules and workers. */
#include "threads/table.h"

#include "base/page.h"
#include "threads/put_words.h"
#include "threads/table_state.h"

#include <stdint.h>

struct tek_kind *tek__table_kind_at(unsigned int number)
{
	char *base = __atomic_load_n(&tek__table.base, __ATOMIC_ACQUIRE);
	return base && number ? (struct tek_kind *)(base + TEK_KINDS_OFFSET) + (number - 1) : NULL;
}

struct tek_kind *tek__table_new_kind(unsigned int number)
{
	struct tek_kind *kind = tek__table_kind_at(number);

	if (!kind || number > TEK_MAX_KINDS)
		return NULL;
	/* A page at a time, once. */
	const unsigned int step = (unsigned int)(tek__page_bytes / sizeof(*kind));
	while (number > tek__table.kinds) {
		if (!tek__table_populate(tek__table_kind_at(tek__table.kinds + 1),
					 step * sizeof(*kind)))
			return NULL;
		tek__table.kinds += step;
	}
	return kind;
}

/*
 * Handlers of overflows write overflow_bytes, overflows and stack_flags meanwhile: so this adds to
 * the sequence number and to stack_flags, and leaves the other two alone (docs/design/table.md).
 */
void tek__table_write_kind(unsigned int number, const struct tek_kind *kind)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_kind *place = tek__table_kind_at(number);

	__atomic_fetch_add(&place->seq, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&place->threads, kind->threads, __ATOMIC_RELEASE);
	tek__put_words(&place->function, &kind->function, sizeof(kind->function));
	tek__put_words(&place->call_site, &kind->call_site, sizeof(kind->call_site));
	tek__put_words(&place->stack_bytes, &kind->stack_bytes, sizeof(kind->stack_bytes));
	__atomic_store_n(&place->peak_bytes, kind->peak_bytes, __ATOMIC_RELEASE);
	__atomic_store_n(&place->bound_bytes, kind->bound_bytes, __ATOMIC_RELEASE);
	__atomic_fetch_or(&place->stack_flags, kind->stack_flags, __ATOMIC_RELEASE);
	__atomic_store_n(&place->label_is, kind->label_is, __ATOMIC_RELEASE);
	tek__put_words(place->label, kind->label, sizeof(kind->label));
	__atomic_fetch_add(&place->seq, 1, __ATOMIC_RELEASE);
	if (number > header->kinds)
		__atomic_store_n(&header->kinds, number, __ATOMIC_RELEASE);
}

/* The half of a number of 64 bits that the processor can exchange at once: its low one. */
static uintptr_t *low_word(tek_u64 *number)
{
	size_t above = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof(*number) - sizeof(uintptr_t)
							      : 0;
	return (uintptr_t *)((char *)number + above);
}

void tek__table_kind_overflowed(unsigned int number, size_t bytes)
{
	struct tek_kind *place = tek__table_kind_at(number);

	if (!place)
		return;
	uintptr_t *largest = low_word(&place->overflow_bytes);
	uintptr_t before = __atomic_load_n(largest, __ATOMIC_RELAXED);
	__atomic_fetch_add(&place->seq, 2, __ATOMIC_RELAXED);
	while (before < bytes && !__atomic_compare_exchange_n(largest, &before, bytes, false,
							      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	__atomic_fetch_or(&place->stack_flags, TEK_STACK_OVERFLOWED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&place->overflows, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&place->seq, 2, __ATOMIC_RELEASE);
}

void tek__table_list_modules(const struct tek_module *modules, unsigned int count,
			     unsigned int program)
{
	struct tek_table_header *header = tek__table_header();
	if (!header)
		return;
	struct tek_module *places = (struct tek_module *)(tek__table.base + TEK_MODULES_OFFSET);
	for (unsigned int i = header->modules; i < count; i++) {
		if (!tek__table_populate(&places[i], sizeof(places[i])))
			return;
		places[i] = modules[i];
		__atomic_store_n(&header->modules, i + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&header->program_module, program, __ATOMIC_RELEASE);
}

_Static_assert(TEK_WORKERS_OFFSET == TEK_KINDS_OFFSET + TEK_MAX_KINDS * sizeof(struct tek_kind) &&
		       TEK_WORKERS_OFFSET + TEK_MAX_WORKERS * sizeof(struct tek_worker_place) <=
			       TEK_TABLE_HEADER_BYTES,
	       "they have their place in the file");

struct tek_worker_place *tek__table_list_workers(unsigned int count)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_worker_place *places = (struct tek_worker_place *)(tek__table.base +
								      TEK_WORKERS_OFFSET);

	if (count > TEK_MAX_WORKERS || !tek__table_populate(places, count * sizeof(*places)))
		return NULL;
	__atomic_store_n(&header->workers, count, __ATOMIC_RELEASE);
	return places;
}
