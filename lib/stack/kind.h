/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kinds of threads, and what is known of their stacks.
 *
 * A *site* is what is known of every thread when it is created: its function and the caller of
 * pthread_create().  A *kind* is a site and a label (role or name), which mostly comes later; kinds
 * are listed in the table (struct tek_kind), where `tek` finds what is to be learnt, of a process
 * that was killed too.
 *
 * A stack is made for the kind that a thread is expected to be of.  Without a label that is the
 * kind without one, for which counts, too, what threads used before they got their labels.  The
 * stack can become as large as the site's largest kind needs: stack/grow.h.
 *
 * Each site has a kind without label in the table from the first, of 0 threads perhaps: the
 * handler of an overflow cannot make one.  It also takes in the labels that find no room.
 *
 * All functions need the lock (threads/process.h) unless they say otherwise.
 */
#ifndef TEK_STACK_KIND_H
#define TEK_STACK_KIND_H

#include "threads/stack_use.h"

struct tek_thread;

/* The known data of a site. */
struct tek_known {
	size_t bound_bytes;    /* most that any of its threads may use; 0: nothing known */
	size_t growth_bytes;   /* how much more that was in one earlier run than in another */
	size_t overflow_bytes; /* the largest stack that one ran out of; 0: none did */
	size_t peak_bytes;     /* most that one certainly used in earlier runs; 0: nothing known */
};

/*
 * The site of a thread that is to be created, from its birth; 0: there is no room for it.  The
 * files of both addresses must be listed.
 */
unsigned short tek__site_of(const struct tek_thread *thread);

/* From the profile, and raised by what threads of this process did; nothing of what is new. */
struct tek_known tek__site_known(unsigned short site);

/* The bound that the profile has for it, whatever threads of this process did; 0: none. */
size_t tek__site_learnt_bytes(unsigned short site);

/*
 * The known data of the kind of a thread, by the label that it has or is expected to get; of its
 * site if that kind is new.
 */
struct tek_known tek__kind_known(const struct tek_thread *thread);

/* Whether the thread has another label than when tek__kind_labelled() was called last. */
bool tek__kind_is_changed(const struct tek_thread *thread);

/* Before that: so much it used while it had the label before, or none. */
void tek__kind_used_before(struct tek_thread *thread, const struct tek_stack_use *use);

/*
 * A thread has got another label.  True: it is to be measured from now on, which it was not to be;
 * can_measure false: that is not possible.
 */
bool tek__kind_labelled(struct tek_thread *thread, bool can_measure);

/*
 * Whether the next thread of this site is to be measured: all until it has settled, then some,
 * the first of each process among them.
 */
bool tek__site_wants_measure(unsigned short site);

/*
 * A thread was measured, perhaps not for the first time: `use` is news of it.  Sets
 * stack.kind.  True: it is the first of its kind in the High Zone.
 */
bool tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use);

/* A thread ran into its guard. In a signal handler of that thread: no lock, async-signal-safe. */
void tek__kind_overflowed(struct tek_thread *thread);

/* The table is about to be left to its reader, `tek run`: count the unmeasured threads. */
void tek__kinds_finish(void);

/* At the start: reads the profile; in the child of a fork. */
void tek__kinds_start(void);
void tek__kinds_forget(void);

#endif
