/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/kind.h"

#include "ident/module.h"
#include "ident/process.h"
#include "ident/thread.h"
#include "stack/learnt.h"
#include "stack/site.h"

#include <string.h>

struct kind {
	struct tek_kind said; /* what the table says of it, and never less */
	unsigned short next;  /* of the same site; 0: none */
	bool warned;          /* of the High Zone */
};

/* Not read back from the table: that is a file, which others of the same user can write. */
static struct kind kinds[TEK_MAX_KINDS];
static unsigned short count;

/* Threads without a kind: the first one, and those that came by no door of ours. */
static bool warned_first, warned_others;

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

/* Its label: all but label and label_is are zero. */
static struct tek_kind label_of(const struct tek_thread *thread)
{
	struct tek_kind kind = {.label_is = TEK_LABEL_NONE};

	if (thread->role_bytes) {
		kind.label_is = TEK_LABEL_ROLE;
		memcpy(kind.label, thread->role, thread->role_bytes);
	} else if (thread->named && thread->name[0]) {
		kind.label_is = TEK_LABEL_NAME;
		put_name(kind.label, thread->name);
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
	kinds[count++] = (struct kind){.said = *kind};
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
	while (number && (at(number)->said.label_is != label->label_is ||
			  memcmp(at(number)->said.label, label->label, sizeof(label->label)) != 0))
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
		at(before)->said.threads--;
		tek__table_write_kind(before, &at(before)->said);
		at(number)->said.threads++;
	}
	thread->stack.kind = number;
}

/* Of a settled site one in so many is measured, which stands for those since the last one. */
static void count_those_between(struct tek_site *site, unsigned short number)
{
	at(number)->said.threads += site->uncounted;
	site->uncounted = 0;
}

/* It is measured for the first time. */
static void count_thread(struct tek_site *site, struct tek_stack *stack)
{
	/* One of those between, which was to go unmeasured, may have been counted with them. */
	if (!stack->measured && !site->uncounted)
		return;
	if (stack->measured)
		count_those_between(site, stack->kind);
	else
		site->uncounted--;
	at(stack->kind)->said.threads++;
	stack->counted = true;
}

static tek_u32 most(tek_u32 a, tek_u32 b)
{
	return a > b ? a : b;
}

/*
 * What is learnt from a bound.  One that may not be the thread's own, and is perhaps its whole
 * stack, says nothing where enough is known already: each run would make the stacks larger.
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

bool tek__kind_note(struct tek_thread *thread, const struct tek_stack_use *use)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_kind label = label_of(thread);

	if (!stack->site)
		stack->site = tek__site_of(thread);
	struct tek_site *site = tek__site_at(stack->site);
	bool news = stack->zone == TEK_ZONE_HIGH; /* somebody should know */
	bool first_time = !stack->kind;
	unsigned short number = site ? find_or_make(site, &label) : 0;
	if (site)
		tek__site_note(site, bound_of(site, use), first_time);
	if (!number)
		return once(thread->tid == tek__pid() ? &warned_first : &warned_others, news);
	if (number != stack->kind)
		move(thread, number);
	if (first_time)
		count_thread(site, stack);
	raise(&at(number)->said, stack, use, bound_of(site, use));
	tek__table_write_kind(number, &at(number)->said);
	return once(&at(number)->warned, news);
}

void tek__kind_overflowed(struct tek_thread *thread)
{
	const struct tek_stack *stack = &thread->stack;
	struct tek_site *site = tek__site_at(stack->site);

	/* In the child of a fork that TEK has not noticed yet the table is its parent's. */
	if (!site || !tek__process_is_known())
		return;
	tek__table_kind_overflowed(stack->kind ? stack->kind : site->bare_kind, stack->bytes);
	tek__site_overflowed(site, stack->bytes);
}

static void finish(struct tek_site *site)
{
	unsigned short number = site->bare_kind;

	if (number && !at(number)->said.threads && site->first_kind)
		number = site->first_kind;
	if (!number || !site->uncounted)
		return;
	count_those_between(site, number);
	tek__table_write_kind(number, &at(number)->said);
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
	warned_first = warned_others = false;
	tek__sites_forget_kinds();
}
