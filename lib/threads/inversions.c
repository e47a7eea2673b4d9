/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/inversions.h"

#include "base/channel.h"
#include "base/module.h"
#include "threads/put_words.h"
#include "threads/table.h"

#include <string.h>

_Static_assert(sizeof(struct tek_table_header) <= TEK_INVERSIONS_OFFSET &&
		       TEK_INVERSIONS_OFFSET + TEK_MAX_INVERSIONS * sizeof(struct tek_inversion) <=
			       TEK_HELD_UP_OFFSET &&
		       TEK_HELD_UP_OFFSET + TEK_MAX_HELD_UP * sizeof(struct tek_held_up) <=
			       TEK_MODULES_OFFSET,
	       "they have their place in the first page");

static void add(tek_u64 *counter, uint64_t value)
{
	const tek_u64 sum = *counter + value;

	tek__put_words(counter, &sum, sizeof(sum));
}

void tek__inversions_lift_begins(void)
{
	struct tek_table_header *header = tek__table_header();

	if (header)
		add(&header->lifts, 1);
}

void tek__inversions_lift_ends(uint64_t ns)
{
	struct tek_table_header *header = tek__table_header();

	if (header)
		add(&header->lifted_ns, ns);
}

static struct tek_inversion *list(void)
{
	char *base = (char *)tek__table_header();

	return base ? (struct tek_inversion *)(base + TEK_INVERSIONS_OFFSET) : NULL;
}

/* The slot of its place, else the one with the shortest wait. */
static struct tek_inversion *slot_for(struct tek_inversion *slots, const struct tek_inversion *wait)
{
	struct tek_inversion *shortest = slots;

	for (unsigned int i = 0; i < TEK_MAX_INVERSIONS; i++) {
		const struct tek_inversion *slot = &slots[i];
		if (slot->kind == wait->kind && slot->object == wait->object &&
		    slot->call == wait->call)
			return &slots[i];
		if (slot->wait_ns < shortest->wait_ns)
			shortest = &slots[i];
	}
	return shortest;
}

bool tek__inversions_wants(const struct tek_inversion *wait)
{
	struct tek_inversion *slots = list();

	return slots && slot_for(slots, wait)->wait_ns < wait->wait_ns;
}

/* Both structs begin with a seq and another number of 32 bits. */
static void write_slot(tek_u32 *seq, const tek_u32 *from, size_t bytes)
{
	const size_t two = 2 * sizeof(*seq);
	const tek_u32 before = __atomic_load_n(seq, __ATOMIC_RELAXED);

	__atomic_store_n(seq, before + 1, __ATOMIC_RELAXED);
	__atomic_store_n(seq + 1, from[1], __ATOMIC_RELEASE);
	tek__put_words((char *)seq + two, (const char *)from + two, bytes - two);
	__atomic_store_n(seq, before + 2, __ATOMIC_RELEASE);
}

void tek__inversions_add(const struct tek_inversion *wait)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_inversion *slots = list();

	if (!slots)
		return;
	add(&header->inversions, 1);
	add(&header->inverted_ns, wait->wait_ns);
	struct tek_inversion *slot = slot_for(slots, wait);
	const bool is_known = slot->kind == wait->kind && slot->object == wait->object &&
			      slot->call == wait->call;
	if (!is_known && slot->wait_ns >= wait->wait_ns)
		return;
	struct tek_inversion new = slot->wait_ns < wait->wait_ns ? *wait : *slot;
	new.waits = (is_known ? slot->waits : 0) + 1;
	new.waited_ns = (is_known ? slot->waited_ns : 0) + wait->wait_ns;
	write_slot(&slot->seq, &new.seq, sizeof(new));
}

/* ---- present waits ---- */

static struct tek_held_up *held_up(void)
{
	char *base = (char *)tek__table_header();

	return base ? (struct tek_held_up *)(base + TEK_HELD_UP_OFFSET) : NULL;
}

static void free_slot(struct tek_held_up *slot)
{
	const struct tek_held_up none = {0};

	write_slot(&slot->seq, &none.seq, sizeof(none));
}

/* A thread in a deadlock has two entries, because its wait can outlast the deadlock. */
static bool is_same(const struct tek_held_up *one, const struct tek_held_up *other)
{
	return one->tid == other->tid && !((one->kind ^ other->kind) & TEK_HELD_UP_DEADLOCK);
}

void tek__inversions_wait_begins(const struct tek_held_up *wait)
{
	struct tek_held_up *slots = held_up(), *slot = slots;

	if (!slots)
		return;
	for (unsigned int i = 0; i < TEK_MAX_HELD_UP; i++)
		if (is_same(&slots[i], wait))
			free_slot(&slots[i]);
	for (unsigned int i = 0; i < TEK_MAX_HELD_UP && slot->tid; i++)
		if (!slots[i].tid || slots[i].since_ns < slot->since_ns)
			slot = &slots[i];
	write_slot(&slot->seq, &wait->seq, sizeof(*wait));
}

void tek__inversions_wait_ends(tek_u32 tid)
{
	struct tek_held_up *slots = held_up();

	for (unsigned int i = 0; slots && i < TEK_MAX_HELD_UP; i++)
		if (slots[i].tid == tid)
			free_slot(&slots[i]);
}

static const struct tek_held_up *find(const struct tek_held_up *waits, unsigned int count,
				      const struct tek_held_up *other)
{
	for (unsigned int i = 0; i < count; i++)
		if (waits[i].tid == other->tid && waits[i].kind == other->kind &&
		    waits[i].holder == other->holder && waits[i].object == other->object)
			return &waits[i];
	return NULL;
}

static bool has_deadlocks;

bool tek__inversions_have_deadlocks(void)
{
	return __atomic_load_n(&has_deadlocks, __ATOMIC_SEQ_CST);
}

void tek__inversions_deadlocks(const struct tek_held_up *waits, unsigned int count)
{
	struct tek_held_up *slots = held_up();

	if (!slots || (!count && !has_deadlocks))
		return;
	for (unsigned int i = 0; i < TEK_MAX_HELD_UP; i++)
		if (slots[i].kind & TEK_HELD_UP_DEADLOCK && !find(waits, count, &slots[i]))
			free_slot(&slots[i]);
	for (unsigned int i = 0; i < count; i++)
		if (!find(slots, TEK_MAX_HELD_UP, &waits[i]))
			tek__inversions_wait_begins(&waits[i]);
	/* In one order with the words of waits: see review() in waits.c. */
	__atomic_store_n(&has_deadlocks, count > 0, __ATOMIC_SEQ_CST);
}

/* ---- the report ---- */

static void report_place(const struct tek_inversion *of, int which, tek_u64 address)
{
	struct tek_event event = tek__channel_event(TEK_EVENT_INVERSION_PLACE);
	uintptr_t bias;
	const char *path = address ? tek__module_path((uintptr_t)address, &bias) : NULL;

	if (!address)
		return;
	event.tid = of->waiter_tid;
	event.error = which;
	event.value[1] = address;
	if (path) {
		event.value[0] = address - bias;
		tek__channel_copy_tail(event.text, sizeof(event.text), path);
	}
	tek__channel_append(&event);
}

static void report_one(const struct tek_inversion *of)
{
	struct tek_event event = tek__channel_event(TEK_EVENT_INVERSION);
	struct tek_event holder = tek__channel_event(TEK_EVENT_HOLDER);

	event.tid = of->waiter_tid;
	event.error = (tek_s32)of->kind;
	event.value[0] = of->waits;
	event.value[1] = of->waited_ns;
	event.value[2] = of->wait_ns;
	event.value[3] = of->cost_ns;
	memcpy(event.thread, of->waiter_name, sizeof(event.thread));
	tek__channel_append(&event);
	holder.tid = of->holder_tid;
	holder.value[0] = of->lifted_ns;
	holder.value[1] = of->lifted_cpu_ns;
	memcpy(holder.thread, of->holder_name, sizeof(holder.thread));
	tek__channel_append(&holder);
	report_place(of, TEK_AT_CALL, of->call);
	report_place(of, TEK_AT_RELEASE, of->release);
	report_place(of, TEK_AT_OBJECT, of->object);
}

void tek__inversions_report(void)
{
	const struct tek_table_header *header = tek__table_header();
	const struct tek_inversion *slots = list();

	if (!slots || !header->inversions || !tek__channel_has_file())
		return;
	struct tek_event event = tek__channel_event(TEK_EVENT_INVERSIONS);
	event.value[0] = header->inversions;
	event.value[1] = header->inverted_ns;
	event.value[2] = header->lifts;
	event.value[3] = header->lifted_ns;
	tek__channel_append(&event);
	for (unsigned int i = 0; i < TEK_MAX_INVERSIONS; i++)
		if (slots[i].kind != TEK_WAITS_NO)
			report_one(&slots[i]);
}
