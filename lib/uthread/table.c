/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/table.h"

#include "base/channel.h"
#include "threads/table.h"
#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/shown.h"
#include "uthread/spin.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Locks of records, each for every LOCKS-th slot. A power of 2. */
#define LOCKS 64

/*
 * thread->slot: the number of the slot, from 1, and of the table; a child of fork() has another
 * table.
 */
#define SLOT_BITS 17
#define SLOT_MASK ((1u << SLOT_BITS) - 1)

bool tek_ut__table_is_settled;

static unsigned int table_number; /* shifted by SLOT_BITS */

static bool is_open;
static const struct tek_table_teller *teller;
static struct tek_spin locks[LOCKS];

/* Slots without an owner, once there are no new ones. */
static struct {
	struct tek_spin lock;
	atomic_bool scarce; /* slots change their owners */
	unsigned int count;
	unsigned short
		*slot; /* TEK_MAX_SLOTS; mapped once they are scarce, NULL: there was no memory */
} unused;

/* From CLOCK_MONOTONIC_COARSE, which takes no system call anywhere, to CLOCK_BOOTTIME. */
static uint64_t boot_offset_ns;

static uint64_t time_of(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Counts from 1; 0 is none. */
static unsigned int slot_of(const struct tek_uthread *thread)
{
	const unsigned int slot = __atomic_load_n(&thread->slot, __ATOMIC_RELAXED);
	return (slot & ~SLOT_MASK) == table_number ? slot & SLOT_MASK : 0;
}

static void set_slot(struct tek_uthread *thread, unsigned int slot)
{
	__atomic_store_n(&thread->slot, table_number | slot, __ATOMIC_RELAXED);
}

/* A slot without any earlier owner, or 0. Under the lock. */
static unsigned int new_slot(void)
{
	struct tek_table_header *header = tek__table_header();
	struct tek_slot slot;

	if (!tek__table_slot(header->slots, &slot))
		return 0;
	tek__table_count(&header->slots, header->slots + 1);
	return header->slots;
}

/* Whether threads without a slot may ask for one. Under the lock. */
static void set_room(bool is_room)
{
	__atomic_store_n(&tek_ut__shown_newcomer, is_room ? teller->newcomer : NULL,
			 __ATOMIC_RELAXED);
}

static unsigned short *map_slots(void)
{
	void *memory = mmap(NULL, TEK_MAX_SLOTS * sizeof(unsigned short), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

__attribute__((cold, noinline)) static bool find_slot(struct tek_uthread *thread)
{
	unsigned int slot = 0;

	tek_ut__spin_lock(&unused.lock);
	if (!atomic_load_explicit(&unused.scarce, memory_order_relaxed))
		slot = new_slot();
	if (!slot) {
		if (!unused.slot)
			unused.slot = map_slots();
		atomic_store_explicit(&unused.scarce, true, memory_order_relaxed);
		if (unused.count) {
			slot = unused.slot[--unused.count] + 1u;
		} else {
			set_room(false);
			tek__table_count(&tek__table_header()->lost, tek__table_header()->lost + 1);
		}
	}
	set_slot(thread, slot);
	tek_ut__spin_unlock(&unused.lock);
	return slot != 0;
}

__attribute__((cold, noinline)) static void give_slot(struct tek_uthread *thread)
{
	tek_ut__spin_lock(&unused.lock);
	if (unused.slot) {
		unused.slot[unused.count++] = (unsigned short)(slot_of(thread) - 1);
		set_room(true);
	}
	set_slot(thread, 0);
	tek_ut__spin_unlock(&unused.lock);
}

/*
 * The number of live threads, or of a moment ago: concurrent writes of two workers may leave it
 * behind by one.
 */
static void count(unsigned int threads)
{
	struct tek_table_header *header = tek__table_header();
	const tek_u32 slots = __atomic_load_n(&header->slots, __ATOMIC_RELAXED);

	tek__table_count(&header->threads, threads < slots ? threads : slots);
}

static void set_name(struct tek_record *record, struct tek_side *side,
		     const struct tek_uthread *thread)
{
	memcpy(side->name, thread->name, sizeof(side->name));
	side->name[sizeof(side->name) - 1] = '\0';
	if (side->name[0])
		record->flags |= TEK_FLAG_NAMED;
	else
		record->flags &= (tek_u8)~TEK_FLAG_NAMED;
}

/*
 * By its name; the first thread has the program's if no other was set. NULL: the role stays as it
 * is.
 */
static const char *set_role(struct tek_record *record, const struct tek_uthread *thread)
{
	char name[sizeof(thread->name)];

	if (!teller->role_of)
		return NULL;
	const bool programs = !thread->name[0] && record->flags & TEK_FLAG_MAIN;
	snprintf(name, sizeof(name), "%s", programs ? tek__channel_program() : thread->name);
	const char *role = teller->role_of(name);
	record->role_bytes = (tek_u16)strlen(role);
	return role;
}

static void publish(struct tek_uthread *thread, struct tek_record *record, struct tek_side *side)
{
	const struct tek_slot slot = tek__table_at(slot_of(thread) - 1);

	record->tid = (tek_u32)thread->id;
	record->flags |= TEK_FLAG_USER;
	teller->set_scheduling(record, thread);
	teller->set_stack(record, side, thread);
	set_name(record, side, thread);
	const char *role = set_role(record, thread);
	__atomic_store_n(&slot.side->worker, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot.side->waits, 0, __ATOMIC_RELAXED);
	tek__table_write(slot, record, side, role);
	thread->shown = slot.side;
}

void tek_ut__table_created(struct tek_uthread *thread, const struct tek_table_birth *birth,
			   unsigned int threads)
{
	const bool used_before = slot_of(thread) != 0;

	if (!is_open || (!used_before && !find_slot(thread)))
		return;
	struct tek_record record = {
		.start_ns = time_of(CLOCK_MONOTONIC_COARSE) + boot_offset_ns,
		.start_routine = birth->function,
	};
	struct tek_side side = {
		.creator_tid = (tek_u32)birth->creator,
		.call_site = birth->call_site,
		.stack_flags = (tek_u8)((birth->explicit_size ? TEK_STACK_EXPLICIT : 0) |
					(birth->fitted ? TEK_STACK_TUNED : 0) |
					(used_before ? TEK_STACK_UNCLEAN : 0)),
	};
	/* Other threads may know it already, if it comes late, and name it. */
	struct tek_spin *lock = teller->newcomer ? &locks[slot_of(thread) % LOCKS] : NULL;
	if (lock)
		tek_ut__spin_lock(lock);
	publish(thread, &record, &side);
	if (lock)
		tek_ut__spin_unlock(lock);
	count(threads);
}

void tek_ut__table_ended(struct tek_uthread *thread, unsigned int threads)
{
	const unsigned int slot = slot_of(thread);

	if (!slot)
		return;
	tek_ut__spin_lock(&locks[slot % LOCKS]);
	thread->shown = NULL;
	tek__table_clear(tek__table_at(slot - 1));
	tek_ut__spin_unlock(&locks[slot % LOCKS]);
	count(threads);
	if (atomic_load_explicit(&unused.scarce, memory_order_relaxed))
		give_slot(thread);
}

/* A record while it is changed. */
struct change {
	struct tek_slot slot;
	struct tek_spin *lock;
	struct tek_record record;
	struct tek_side side;
};

/* Whether it is still the thread's own. */
static bool begin_change(const struct tek_uthread *thread, struct change *change)
{
	/* The thread may end meanwhile, and another thread get its slot. */
	const unsigned int slot = slot_of(thread);

	if (!slot)
		return false;
	change->slot = tek__table_at(slot - 1);
	change->lock = &locks[slot % LOCKS];
	tek_ut__spin_lock(change->lock);
	change->record = *change->slot.record;
	change->side = *change->slot.side;
	if (change->record.tid == (tek_u32)thread->id)
		return true;
	tek_ut__spin_unlock(change->lock);
	return false;
}

static void end_change(const struct change *change, const char *role)
{
	tek__table_write(change->slot, &change->record, &change->side, role);
	tek_ut__spin_unlock(change->lock);
}

void tek_ut__table_named(struct tek_uthread *thread)
{
	struct change change;

	if (!begin_change(thread, &change))
		return;
	set_name(&change.record, &change.side, thread);
	end_change(&change, set_role(&change.record, thread));
}

void tek_ut__table_scheduled(struct tek_uthread *thread)
{
	struct change change;

	if (!begin_change(thread, &change))
		return;
	teller->set_scheduling(&change.record, thread);
	end_change(&change, NULL);
}

/* The start time of the process: the thread that makes the table was there from the first. */
static uint64_t start_of_process(void)
{
	const struct tek_table_header *header = tek__table_header();
	return header->start_ns ? header->start_ns + (uint64_t)header->boot_offset_ns : 0;
}

static void open_table(struct tek_uthread *self)
{
	struct tek_slot slot;

	if (!tek__table_slot(0, &slot))
		return;
	struct tek_worker_place *places = tek__table_list_workers(tek_ut__worker_count);
	if (!places)
		return;
	boot_offset_ns = time_of(CLOCK_BOOTTIME) - time_of(CLOCK_MONOTONIC);
	tek_ut__enter();
	atomic_store(&tek_ut__shown_workers, places);
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		const struct tek_carrier *carrier = atomic_load(&tek_ut__workers[i].carrier);
		if (carrier)
			tek_ut__shown_carried(i, (int)carrier->tid);
	}
	is_open = true;
	if (find_slot(self)) {
		struct tek_record record = {.start_ns = start_of_process(), .flags = TEK_FLAG_MAIN};
		struct tek_side side = {0};
		publish(self, &record, &side);
		tek_ut__shown_runs(self, tek_ut__here_worker()->number);
	}
	tek_ut__shown_gone = teller->gone;
	set_room(true);
	tek_ut__leave();
}

void tek_ut__table_open(const struct tek_table_teller *given)
{
	const int saved = errno;
	int cancellation;

	tek_ut__table_process_start();
	tek_ut__table_is_settled = true;
	teller = given;
	/* Files are open meanwhile. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	open_table(tek_ut__here_self());
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
}

void tek_ut__table_after_fork(void)
{
	if (!tek_ut__table_is_settled)
		return;
	tek_ut__table_is_settled = is_open = false;
	tek_ut__shown_newcomer = tek_ut__shown_gone = NULL;
	atomic_store(&tek_ut__shown_workers, NULL);
	tek__table_forget();
	table_number += SLOT_MASK + 1;
	for (struct tek_uthread *each = atomic_load(&tek_ut__uthreads); each;
	     each = each->all_next) {
		/* Each write copies a page. */
		if (each->shown)
			each->shown = NULL;
	}
	unused.count = 0;
	atomic_store(&unused.scarce, false);
	atomic_store(&unused.lock.held, 0);
	for (size_t i = 0; i < LOCKS; i++)
		atomic_store(&locks[i].held, 0);
}
