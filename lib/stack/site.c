/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/site.h"

#include "ident/process.h"
#include "ident/thread.h"
#include "stack/learnt.h"

enum {
	BUCKETS = 1024, /* twice the sites, so that a free one is near */
	SETTLED_THREADS = 16,
	SETTLED_SINCE = 8,
	SAMPLE = 16, /* of a settled site one in so many threads is measured, and more of the first */
};

static struct tek_site sites[TEK_MAX_SITES];
static unsigned short count;
static unsigned short buckets[BUCKETS]; /* numbers of sites, from 1; 0: free */

struct tek_site *tek__site_at(unsigned short number)
{
	return number ? &sites[number - 1] : NULL;
}

/* Of few programs the addresses differ in their low bits only: all of them count. */
static unsigned int hash(uintptr_t function, uintptr_t call_site)
{
	uint64_t mixed = ((uint64_t)function * 31 + call_site) * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned int)(mixed >> 54); /* 10 bits */
}
_Static_assert(BUCKETS == 1 << 10, "as many bits as hash() gives");

/* The bucket that has it, or the free one for it. */
static unsigned short *find(uintptr_t function, uintptr_t call_site)
{
	unsigned int at = hash(function, call_site);

	while (buckets[at] && (sites[buckets[at] - 1].function != function ||
			       sites[buckets[at] - 1].call_site != call_site))
		at = (at + 1) % BUCKETS;
	return &buckets[at];
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* A fork may come in between: the site is complete before it can be found. */
__attribute__((cold)) static unsigned short make(uintptr_t function, uintptr_t call_site,
						 unsigned short *bucket)
{
	if (count == TEK_MAX_SITES)
		return 0;
	const struct tek_learnt_site learnt = tek__learnt_of(function, call_site);
	const bool settled = learnt.threads >= SETTLED_THREADS;
	struct tek_site *site = &sites[count++];
	*site = (struct tek_site){
		.function = function,
		.call_site = call_site,
		.is_learnt = learnt.bound_bytes || learnt.overflow_bytes,
		.learnt_bytes = (size_t)learnt.bound_bytes,
		.known = {.bound_bytes = (size_t)learnt.bound_bytes,
			  .growth_bytes = (size_t)learnt.growth_bytes,
			  .overflow_bytes = (size_t)learnt.overflow_bytes,
			  .peak_bytes = (size_t)learnt.peak_bytes},
		.bound_bytes = (size_t)learnt.bound_bytes,
		.measured = settled ? SETTLED_THREADS : (unsigned int)learnt.threads,
		.since_higher = settled ? SETTLED_SINCE : 0,
		.turn = (unsigned int)(learnt.runs % SAMPLE),
	};
	*bucket = count;
	return count;
}

unsigned short tek__site_of(const struct tek_thread *thread)
{
	const struct tek_birth *birth = &thread->birth;
	unsigned short *bucket;

	if (!birth->function)
		return 0;
	bucket = find(birth->function, birth->call_site);
	unsigned short number = *bucket ? *bucket : make(birth->function, birth->call_site, bucket);
	struct tek_site *site = tek__site_at(number);
	if (site && !site->bare_kind)
		site->bare_kind = tek__kind_bare(site);
	return number;
}

struct tek_known tek__site_known(unsigned short number)
{
	const struct tek_site *site = tek__site_at(number);

	if (!site)
		return (struct tek_known){0};
	return (struct tek_known){
		.bound_bytes = site->known.bound_bytes,
		.growth_bytes = site->known.growth_bytes,
		.peak_bytes = site->known.peak_bytes,
		.overflow_bytes = __atomic_load_n(&site->known.overflow_bytes, __ATOMIC_RELAXED),
	};
}

size_t tek__site_learnt_bytes(unsigned short number)
{
	const struct tek_site *site = tek__site_at(number);

	return site ? site->learnt_bytes : 0;
}

/*
 * A program may create few threads in each of its runs.  So of a process's threads one is measured
 * of the first, of the next 2, the next 4, the next 8, and then of each 16; which one, takes turns.
 */
static bool is_sampled(const struct tek_site *site)
{
	unsigned int among = SAMPLE;

	while (among > site->created)
		among /= 2;
	return site->created % among == site->turn % among;
}

bool tek__site_wants_measure(unsigned short number)
{
	struct tek_site *site = tek__site_at(number);

	if (!site)
		return true;
	site->created++;
	if (site->measured < SETTLED_THREADS || site->since_higher < SETTLED_SINCE ||
	    is_sampled(site))
		return true;
	site->uncounted++;
	return false;
}

void tek__site_note(struct tek_site *site, size_t bound_bytes, bool first_time)
{
	site->measured += first_time && site->measured < SETTLED_THREADS;
	site->since_higher += first_time && site->since_higher < SETTLED_SINCE;
	if (bound_bytes > site->bound_bytes) {
		site->bound_bytes = bound_bytes;
		site->since_higher = 0;
	}
	/* What the profile does not have is for the next run: until then nothing changes. */
	if (site->is_learnt)
		site->known.bound_bytes = most(site->known.bound_bytes, bound_bytes);
}

void tek__site_overflowed(struct tek_site *site, size_t bytes)
{
	size_t *largest = &site->known.overflow_bytes;
	size_t before = __atomic_load_n(largest, __ATOMIC_RELAXED);

	while (site->is_learnt && before < bytes &&
	       !__atomic_compare_exchange_n(largest, &before, bytes, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void tek__sites_each(void (*visit)(struct tek_site *))
{
	for (unsigned short i = 0; i < count; i++)
		visit(&sites[i]);
}

void tek__sites_forget_kinds(void)
{
	for (unsigned short i = 0; i < count; i++) {
		sites[i].first_kind = sites[i].bare_kind = sites[i].uncounted = 0;
		sites[i].created = 0;
		sites[i].turn = (unsigned int)tek__pid() % SAMPLE; /* of many children, each another */
	}
}
