/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/site.h"

#include "stack/learnt.h"
#include "threads/thread.h"

enum {
	BUCKETS = 1024, /* twice the sites, so that a free one is near */
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

struct tek_known tek__known_of(const struct tek_learnt_site *learnt)
{
	return (struct tek_known){.bound_bytes = (size_t)learnt->bound_bytes,
				  .growth_bytes = (size_t)learnt->growth_bytes,
				  .overflow_bytes = (size_t)learnt->overflow_bytes,
				  .peak_bytes = (size_t)learnt->peak_bytes};
}

struct tek_known tek__known_now(const struct tek_known *known)
{
	return (struct tek_known){
		.bound_bytes = known->bound_bytes,
		.growth_bytes = known->growth_bytes,
		.peak_bytes = known->peak_bytes,
		.overflow_bytes = __atomic_load_n(&known->overflow_bytes, __ATOMIC_RELAXED),
	};
}

void tek__known_overflowed(struct tek_known *known, size_t bytes)
{
	size_t before = __atomic_load_n(&known->overflow_bytes, __ATOMIC_RELAXED);

	while (before < bytes &&
	       !__atomic_compare_exchange_n(&known->overflow_bytes, &before, bytes, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* A fork may come in between: the site is complete before it can be found. */
__attribute__((cold)) static unsigned short make(uintptr_t function, uintptr_t call_site,
						 unsigned short *bucket)
{
	if (count == TEK_MAX_SITES)
		return 0;
	const struct tek_learnt_site learnt = tek__learnt_of(function, call_site);
	struct tek_site *site = &sites[count++];
	*site = (struct tek_site){
		.function = function,
		.call_site = call_site,
		.is_learnt = learnt.bound_bytes || learnt.overflow_bytes,
		.learnt_bytes = (size_t)learnt.bound_bytes,
		.known = tek__known_of(&learnt),
		.bound_bytes = (size_t)learnt.bound_bytes,
		.sampling = tek__sampling_of(learnt.threads, learnt.runs),
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

	return site ? tek__known_now(&site->known) : (struct tek_known){0};
}

size_t tek__site_learnt_bytes(unsigned short number)
{
	const struct tek_site *site = tek__site_at(number);

	return site ? site->learnt_bytes : 0;
}

bool tek__site_wants_measure(unsigned short number)
{
	struct tek_site *site = tek__site_at(number);

	if (!site)
		return true;
	if (tek__sampling_wants(&site->sampling))
		return true;
	site->uncounted++;
	return false;
}

void tek__site_note(struct tek_site *site, size_t bound_bytes, bool first_time)
{
	tek__sampling_note(&site->sampling, first_time, bound_bytes > site->bound_bytes);
	site->bound_bytes = most(site->bound_bytes, bound_bytes);
	/* A bound beyond the profile's is for the next run: until then nothing changes. */
	if (site->is_learnt)
		site->known.bound_bytes = most(site->known.bound_bytes, bound_bytes);
}

void tek__site_overflowed(struct tek_site *site, size_t bytes)
{
	if (site->is_learnt)
		tek__known_overflowed(&site->known, bytes);
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
		tek__sampling_forget(&sites[i].sampling);
	}
}
