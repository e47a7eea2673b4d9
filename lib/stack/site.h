/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The place of creation and the function of a thread: the half of stack/kind.h that is known before
 * the thread exists. Functions need the lock (threads/process.h) unless noted otherwise.
 */
#ifndef TEK_STACK_SITE_H
#define TEK_STACK_SITE_H

#include "stack/kind.h"
#include "stack/sampling.h"

enum { TEK_MAX_SITES = 512 };

struct tek_site {
	uintptr_t function, call_site;
	bool is_learnt;         /* it is in the profile, */
	size_t learnt_bytes;    /* with this bound; 0: not known */
	struct tek_known known; /* all zero if it is not in the profile */
	size_t bound_bytes;     /* largest that this process met, or the profile has */
	unsigned int uncounted; /* threads that are not measured, and no kind counts them yet */
	struct tek_sampling sampling;
	unsigned short first_kind; /* of its labels: numbers in the table, linked; 0: none */
	unsigned short bare_kind;  /* the one without label; 0: there was no room for it */
};

/* The site with this number; NULL for 0. Needs no lock. */
struct tek_site *tek__site_at(unsigned short number);

/* Its thread was measured, for the first time or again. */
void tek__site_note(struct tek_site *site, size_t bound_bytes, bool first_time);

/* The known data at the start of a process, and now. The latter needs no lock. */
struct tek_learnt_site;
struct tek_known tek__known_of(const struct tek_learnt_site *learnt);
struct tek_known tek__known_now(const struct tek_known *known);

/* A stack of so many bytes ran over. Needs no lock; async-signal-safe. */
void tek__known_overflowed(struct tek_known *known, size_t bytes);

/* A stack of it ran over. Needs no lock; async-signal-safe. */
void tek__site_overflowed(struct tek_site *site, size_t bytes);

/* In the child of a fork: none of its kinds is in the table. */
void tek__sites_forget_kinds(void);

/* Call visit for every site. */
void tek__sites_each(void (*visit)(struct tek_site *));

/* The kind without label of a new site (kind.c). */
unsigned short tek__kind_bare(const struct tek_site *site);

#endif
