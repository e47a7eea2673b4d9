/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/parking.h"

#include "sync/futex.h"
#include "sync/guard.h"
#include "sync/waiting.h"

#include <limits.h>
#include <stdint.h>

#define BUCKETS 256u /* a power of two */

/* A user-level thread that sleeps. */
struct parked {
	struct tek_sleeper sleeper;
	atomic_uint *word;
	struct parked *next;
};

/* The user-level threads that sleep on words of one bucket, in FIFO order. */
struct bucket {
	atomic_uint held;     /* the lock of the list */
	unsigned int process; /* the process that wrote it last: forked.h */
	atomic_uint count;    /* threads that sleep, or are about to */
	struct parked *first, **end;
} __attribute__((aligned(64)));

static struct bucket buckets[BUCKETS];

static struct bucket *bucket_of(const atomic_uint *word)
{
	const uintptr_t address = (uintptr_t)word;
	return &buckets[(address >> 4 ^ address >> 12) % BUCKETS];
}

/* The parent's sleepers do not exist in the child of a fork(). */
static void hold(struct bucket *bucket)
{
	tek_sync__guard_hold(&bucket->held);
	if (bucket->process == tek_sync__process())
		return;
	atomic_store_explicit(&bucket->count, 0, memory_order_relaxed);
	bucket->first = NULL;
	bucket->end = &bucket->first;
	bucket->process = tek_sync__process();
}

static void let_go(struct bucket *bucket)
{
	tek_sync__guard_let_go(&bucket->held);
}

static void take_out(struct bucket *bucket, struct parked **place)
{
	struct parked *parked = *place;

	*place = parked->next;
	if (bucket->end == &parked->next)
		bucket->end = place;
	atomic_fetch_sub_explicit(&bucket->count, 1, memory_order_relaxed);
}

/* Returns whether it was there still. */
static bool leave(struct bucket *bucket, struct parked *parked)
{
	bool found = false;

	hold(bucket);
	for (struct parked **place = &bucket->first; *place && !found; place = &(*place)->next)
		if (*place == parked) {
			take_out(bucket, place);
			found = true;
			break;
		}
	let_go(bucket);
	return found;
}

static int park_on_user_level(atomic_uint *word, unsigned int seen, struct tek_until until)
{
	struct bucket *bucket = bucket_of(word);
	struct parked parked = {.word = word};

	tek_sync__sleeper_init(&parked.sleeper);
	hold(bucket);
	/*
	 * Both this and tek_sync__unpark() write the count: there after the word has changed, here
	 * before it is read.  Either this write comes first, and is seen there; or it reads what
	 * the other has written, and so acquires the change.
	 */
	atomic_fetch_add(&bucket->count, 1);
	if (atomic_load(word) != seen) {
		atomic_fetch_sub_explicit(&bucket->count, 1, memory_order_relaxed);
		let_go(bucket);
		return 0;
	}
	parked.next = NULL;
	*bucket->end = &parked;
	bucket->end = &parked.next;
	let_go(bucket);
	int error = tek_sync__sleep(&parked.sleeper, until);
	/* The thread that took it out is about to wake it, and needs it until then. */
	if (error && !leave(bucket, &parked))
		error = tek_sync__sleep(&parked.sleeper, TEK_FOR_EVER);
	return error;
}

int tek_sync__park(atomic_uint *word, unsigned int seen, struct tek_until until)
{
	return tek_sync__on_user_level() ? park_on_user_level(word, seen, until)
					 : tek_sync__futex_wait_until(word, seen, until);
}

/* Wakes at most so many; returns how many it has not found. */
static unsigned int unpark_user_level(atomic_uint *word, unsigned int most)
{
	struct bucket *bucket = bucket_of(word);
	struct parked *woken = NULL, **last = &woken;

	/*
	 * A write, so that it is ordered with the parking thread's write; and TSan understands it.
	 */
	if (atomic_fetch_add(&bucket->count, 0) == 0)
		return most;
	hold(bucket);
	for (struct parked **place = &bucket->first; *place && most;) {
		struct parked *parked = *place;
		if (parked->word != word) {
			place = &parked->next;
			continue;
		}
		take_out(bucket, place);
		*last = parked;
		last = &parked->next;
		most--;
	}
	*last = NULL;
	let_go(bucket);
	while (woken) {
		struct parked *next = woken->next;
		tek_sync__awaken(&woken->sleeper);
		woken = next;
	}
	return most;
}

void tek_sync__unpark(atomic_uint *word, unsigned int most)
{
	if (__builtin_expect(tek_sync__host != NULL, 0))
		most = unpark_user_level(word, most);
	if (most)
		tek_sync__futex_wake(word, most < INT_MAX ? (int)most : INT_MAX);
}
