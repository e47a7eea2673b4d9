/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/kind.h"

#include "base/module.h"
#include "stack/learnt.h"
#include "stack/sampling.h"
#include "stack/site.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <string.h>

struct kind {
	struct tek_kind published; /* what the table says of it, and never less */
	unsigned short next;       /* of the same site; 0: none */
	bool warned;               /* of the High Zone */
	bool is_learnt;            /* it is in the profile */
	size_t bound_bytes;        /* largest that this process met, or the profile has */
	struct tek_known known;
	struct tek_sampling sampling; /* not used of a kind without label: its site's counts */
};

/*
 * Not read back from the table: that is a file, which other processes of the same user can write.
 */
static struct kind kinds[TEK_MAX_KINDS];
static unsigned short count;

/* Threads without a kind: the first one, and those that were not created through TEK. */
static bool warned_first, warned_again;

static struct kind *at(unsigned short number)
{
	return &kinds[number - 1];
}

/* Each run of digits as one '#': worker-1 and worker-12 are of one kind. */
static void put_name(tek_u8 *label, const char *name)
{
	bool in_digits = false;

	for (; *name; name++) {
		bool digit = *name >= '0' && *name <= '9';
		if (!digit || !in_digits)
			*label++ = digit ? '#' : (tek_u8)*name;
		in_digits = digit;
	}
}

/*
 * Its label, or the one that it is expected to get from its runtime: all but label and label_is are
 * zero.
 */
static struct tek_kind label_of(const struct tek_thread *thread)
{
	const char *name = thread->named ? thread->name : thread->birth.name;
	struct tek_kind kind = {.label_is = TEK_LABEL_NONE};

	if (thread->role_bytes) {
		kind.label_is = TEK_LABEL_ROLE;
		memcpy(kind.label, thread->role, thread->role_bytes);
	} else if (name[0]) {
		kind.label_is = TEK_LABEL_NAME;
		put_name(kind.label, name);
	}
	return kind;
}

/* 0: there is no room for it. `kind` has its label. */
static unsigned short make(const struct tek_site *site, struct tek_kind *kind)
{
	unsigned int number = count + 1u;

	if (number > TEK_MAX_KINDS || !tek__table_new_kind(number))
		return 0;
	kind->function = site->function;
	kind->call_site = site->call_site;
	struct tek_label label = {.is = kind->label_is};
	_Static_assert(sizeof(label.text) == sizeof(kind->label), "they are the same");
	memcpy(label.text, kind->label, sizeof(label.text));
	const struct tek_learnt_site learnt = tek__learnt_of_label(site->function, site->call_site,
								   &label);
	kinds[count++] = (struct kind){
		.published = *kind,
		.is_learnt = learnt.bound_bytes || learnt.overflow_bytes,
		.bound_bytes = (size_t)learnt.bound_bytes,
		.known = tek__known_of(&learnt),
		.sampling = tek__sampling_of(learnt.threads, learnt.runs),
	};
	tek__table_write_kind(number, kind);
	return (unsigned short)number;
}

unsigned short tek__kind_bare(const struct tek_site *site)
{
	struct tek_kind none = {.label_is = TEK_LABEL_NONE};
	return make(site, &none);
}

static unsigned short find_or_make(struct tek_site *site, struct tek_kind *label)
{
	unsigned short number = site->first_kind;

	if (label->label_is == TEK_LABEL_NONE)
		return site->bare_kind;
	while (number &&
	       (at(number)->published.label_is != label->label_is ||
		memcmp(at(number)->published.label, label->label, sizeof(label->label)) != 0))
		number = at(number)->next;
	if (number)
		return number;
	number = make(site, label);
	if (!number)
		return site->bare_kind;
	at(number)->next = site->first_kind;
	site->first_kind = number;
	return number;
}

/* A thread's label came or changed since the last look: what it used stays with both. */
static void move(struct tek_thread *thread, unsigned short number)
{
	unsigned short before = thread->stack.kind;

	if (before && thread->stack.counted) {
		at(before)->published.threads--;
		tek__table_write_kind(before, &at(before)->published);
		at(number)->published.threads++;
	}
	thread->stack.kind = number;
}

/*
 * Of a settled site one in so many is measured.  One without label stands for those since the last
 * one, which have none, either: a thread that gets one is counted then.
 */
static void count_those_between(struct tek_site *site, unsigned short number)
{
	at(number)->published.threads += site->uncounted;
	site->uncounted = 0;
}

/* It is measured for the first time. */
static void count_thread(struct tek_site *site, struct tek_stack *stack)
{
	/* One of those between, which was to go unmeasured, may have been counted with them. */
	if (!stack->measured && !site->uncounted)
		return;
	if (!stack->measured)
		site->uncounted--;
	else if (stack->kind == site->bare_kind)
		count_those_between(site, stack->kind);
	at(stack->kind)->published.threads++;
	stack->counted = true;
}

/* It gets a label, and is not going to be measured. */
static void count_unmeasured(struct tek_site *site, struct tek_stack *stack, unsigned short number)
{
	struct kind *bare = site->bare_kind ? at(site->bare_kind) : NULL;

	if (site->uncounted) {
		site->uncounted--;
	} else if (bare && bare->published.threads) { /* it was counted with those without label */
		bare->published.threads--;
		tek__table_write_kind(site->bare_kind, &bare->published);
	} else {
		return;
	}
	at(number)->published.threads++;
	tek__table_write_kind(number, &at(number)->published);
	stack->kind = number;
	stack->counted = true;
}

static tek_u32 most(tek_u32 a, tek_u32 b)
{
	return a > b ? a : b;
}

/*
 * The bound to learn from. A bound that may not be the thread's own, and is perhaps its whole
 * stack, is ignored where enough is known already: each run would make the stacks larger.
 */
static tek_u32 bound_of(const struct tek_site *site, const struct tek_stack_use *use)
{
	bool is_enough = use->flags & TEK_STACK_UNCLEAN && use->peak_bytes <= site->learnt_bytes;
	return is_enough ? use->peak_bytes : use->bound_bytes;
}

static void raise(struct tek_kind *kind, const struct tek_stack *stack,
		  const struct tek_stack_use *use, tek_u32 bound_bytes)
{
	kind->peak_bytes = most(kind->peak_bytes, use->peak_bytes);
	kind->bound_bytes = most(kind->bound_bytes, bound_bytes);
	if (kind->stack_bytes < stack->bytes)
		kind->stack_bytes = stack->bytes;
	kind->stack_flags |= stack->flags | use->flags;
}

static bool once(bool *warned, bool now)
{
	bool first = now && !*warned;
	*warned |= now;
	return first;
}

/* Updates the known bound of a kind, and whether it settles. */
static void learn(struct kind *kind, size_t bound_bytes, bool first_time)
{
	tek__sampling_note(&kind->sampling, first_time, bound_bytes > kind->bound_bytes);
	if (bound_bytes > kind->bound_bytes)
		kind->bound_bytes = bound_bytes;
	/* A bound beyond the profile's is for the next run: until then nothing changes. */
	if (kind->is_learnt && bound_bytes > kind->known.bound_bytes)
		kind->known.bound_bytes = bound_bytes;
}

/* The number of a thread's kind by the label that it has now; 0: there is no room for it. */
static unsigned short number_of(const struct tek_thread *thread)
{
	struct tek_site *site = tek__site_at(thread->stack.site);
	struct tek_kind label = label_of(thread);

	return site ? find_or_make(site, &label) : 0;
}

struct tek_known tek__kind_known(const struct tek_thread *thread)
{
	unsigned short number = number_of(thread);

	return number && at(number)->is_learnt ? tek__known_now(&at(number)->known)
					       : tek__site_known(thread->stack.site);
}

static unsigned short last_label(const struct tek_thread *thread)
{
	const struct tek_site *site = tek__site_at(thread->stack.site);

	return thread->stack.labelled || !site ? thread->stack.labelled : site->bare_kind;
}

bool tek__kind_is_changed(const struct tek_thread *thread)
{
	return number_of(thread) != last_label(thread);
}

void tek__kind_used_before(struct tek_thread *thread, const struct tek_stack_use *use)
{
	struct tek_site *site = tek__site_at(thread->stack.site);
	unsigned short number = last_label(thread);

	if (!site || !number)
		return;
	tek_u32 bound_bytes = bound_of(site, use);
	tek__site_note(site, bound_bytes, false);
	learn(at(number), bound_bytes, false);
	raise(&at(number)->published, &thread->stack, use, bound_bytes);
	tek__table_write_kind(number, &at(number)->published);
}

bool tek__kind_labelled(struct tek_thread *thread, bool can_measure)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_site *site = tek__site_at(stack->site);
	unsigned short number = number_of(thread);

	if (!number)
		return false;
	stack->labelled = number;
	bool wanted = tek__sampling_wants(&at(number)->sampling) && can_measure;
	if (stack->measured)
		return false;
	if (stack->kind) {
		move(thread, number);
		tek__table_write_kind(number, &at(number)->published);
	} else if (!wanted) {
		count_unmeasured(site, stack, number);
	} else if (site->uncounted) {
		site->uncounted--;
	}
	return wanted;
}

bool tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_kind label = label_of(thread);

	if (!stack->site)
		stack->site = tek__site_of(thread);
	struct tek_site *site = tek__site_at(stack->site);
	bool news = stack->zone == TEK_ZONE_HIGH; /* to be reported */
	bool first_time = !stack->kind;
	unsigned short number = site ? find_or_make(site, &label) : 0;
	if (site)
		tek__site_note(site, bound_of(site, use), first_time);
	if (!number)
		return once(thread->tid == tek__pid() ? &warned_first : &warned_again, news);
	bool new_to_kind = number != stack->kind;
	if (new_to_kind)
		move(thread, number);
	if (first_time)
		count_thread(site, stack);
	learn(at(number), bound_of(site, use), new_to_kind);
	raise(&at(number)->published, stack, use, bound_of(site, use));
	tek__table_write_kind(number, &at(number)->published);
	return once(&at(number)->warned, news);
}

void tek__kind_overflowed(struct tek_thread *thread)
{
	const struct tek_stack *stack = &thread->stack;
	struct tek_site *site = tek__site_at(stack->site);

	/* In the child of a fork that TEK has not noticed yet the table is its parent's. */
	if (!site || !tek__process_is_known())
		return;
	unsigned short number = stack->kind ? stack->kind : site->bare_kind;
	tek__table_kind_overflowed(number, stack->bytes);
	tek__site_overflowed(site, stack->bytes);
	if (number && at(number)->is_learnt)
		tek__known_overflowed(&at(number)->known, stack->bytes);
}

static void finish(struct tek_site *site)
{
	unsigned short number = site->bare_kind;

	if (number && !at(number)->published.threads && site->first_kind)
		number = site->first_kind;
	if (!number || !site->uncounted)
		return;
	count_those_between(site, number);
	tek__table_write_kind(number, &at(number)->published);
}

void tek__kinds_finish(void)
{
	tek__sites_each(finish);
}

void tek__kinds_start(void)
{
	tek__module_note_program();
	tek__learnt_start();
}

void tek__kinds_forget(void)
{
	count = 0;
	warned_first = warned_again = false;
	tek__sites_forget_kinds();
}
