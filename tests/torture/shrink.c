/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "shrink.h"

#include <string.h>

static void without(struct step_list *rest, const struct step_list *list, unsigned int begin,
		    unsigned int end)
{
	rest->count = list->count - (end - begin);
	memcpy(rest->steps, list->steps, begin * sizeof(list->steps[0]));
	memcpy(rest->steps + begin, list->steps + end,
	       (list->count - end) * sizeof(list->steps[0]));
}

/* Leaves out all steps of a slot. */
static void without_slot(struct step_list *rest, const struct step_list *list, unsigned int slot)
{
	rest->count = 0;
	for (unsigned int i = 0; i < list->count; i++)
		if (list->steps[i].slot != slot)
			rest->steps[rest->count++] = list->steps[i];
}

static bool shrink_slots(struct step_list *list, still_fails *fails, bool (*is_over)(void *),
			 void *context)
{
	static struct step_list rest;
	bool shrunk = false;

	for (unsigned int slot = 0; slot < SLOTS && !is_over(context); slot++) {
		without_slot(&rest, list, slot);
		if (rest.count == list->count || !fails(&rest, context))
			continue;
		*list = rest;
		shrunk = true;
	}
	return shrunk;
}

/* Returns whether a part of this length could be left out. */
static bool shrink_parts(struct step_list *list, unsigned int length, still_fails *fails,
			 bool (*is_over)(void *), void *context)
{
	static struct step_list rest;
	bool shrunk = false;

	/* From the end: later steps depend on earlier ones. */
	for (unsigned int end = list->count; end > 0 && !is_over(context);) {
		const unsigned int begin = end > length ? end - length : 0;
		without(&rest, list, begin, end);
		if (fails(&rest, context)) {
			*list = rest;
			shrunk = true;
		}
		end = begin;
	}
	return shrunk;
}

void shrink(struct step_list *list, still_fails *fails, bool (*is_over)(void *), void *context)
{
	shrink_slots(list, fails, is_over, context);
	for (unsigned int length = (list->count + 1) / 2; length && !is_over(context);) {
		const bool shrunk = shrink_parts(list, length, fails, is_over, context);
		if (length == 1 && !shrunk)
			break;
		if (length > list->count)
			length = list->count;
		if (length > 1)
			length /= 2;
	}
}
