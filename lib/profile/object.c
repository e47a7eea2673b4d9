/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/object.h"

#include "profile/clock.h"
#include "profile/file.h"

/* Places that are looked at. */
#define PROBES 8

static struct tek_profile_object *find(struct tek_profile_thread *thread, uint64_t object,
				       uint64_t site, tek_u32 kind, bool may_take)
{
	struct tek_profile_object *objects = tek_prof__file_objects(thread);
	uint64_t hash = (object ^ site << 7 ^ kind) * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	for (unsigned int probe = 0; probe < PROBES; probe++) {
		struct tek_profile_object *at = &objects[(hash + probe) % TEK_PROFILE_OBJECTS];
		if (at->object == object && at->site == site && at->kind == kind)
			return at;
		if (!at->kind) {
			if (!may_take)
				return NULL;
			tek_prof__self.objects++;
			at->object = object;
			at->site = site;
			at->kind = kind;
			return at;
		}
	}
	return NULL;
}

struct tek_profile_object *tek_prof__object(struct tek_profile_thread *thread, const void *object,
					    const void *site, tek_u32 kind, bool is_contended)
{
	struct tek_profile_self *self = &tek_prof__self;
	uint64_t place = (uintptr_t)site;
	/* Objects without waiters get no more than half of the table. */
	bool may_take = is_contended || self->objects < TEK_PROFILE_OBJECTS / 2;
	struct tek_profile_object *found = find(thread, (uintptr_t)object, place, kind, may_take);

	if (!found)
		found = find(thread, 0, place, kind, true);
	if (!found) {
		thread->lost_objects++;
		return NULL;
	}
	return found;
}

/*
 * It has no pointer as a parameter.  UBSan would compare that with NULL, by the flags of an
 * addition that the linker replaces by another instruction.
 */
static unsigned int oldest(void)
{
	const struct tek_profile_held *holds = tek_prof__self.holds;
	unsigned int found = 0;

	for (unsigned int i = 1; i < TEK_PROFILE_HELD; i++)
		if (holds[i].since < holds[found].since)
			found = i;
	return found;
}

void tek_prof__holds(const void *object, struct tek_profile_object *counted, uint64_t now)
{
	struct tek_profile_self *self = &tek_prof__self;
	uint32_t weight = 1;

	if (!now) {
		if (self->hold_in) {
			self->hold_in--;
			return;
		}
		weight = self->hold_stands ? self->hold_stands : 1;
		/* Not in step with what the program locks one after the other. */
		self->hold_stands = (uint8_t)(1 + tek_prof__random(2 * TEK_PROFILE_HOLD_EACH - 1));
		self->hold_in = self->hold_stands - 1;
		now = tek_prof__ticks();
	}
	if (!counted)
		return;
	/*
	 * One that is destroyed, or given back by another thread, is not given back here: the
	 * oldest makes room.
	 */
	unsigned int at = self->held < TEK_PROFILE_HELD ? self->held++ : oldest();
	self->holds[at] = (struct tek_profile_held){object, counted, now, weight};
}

void tek_prof__held(const void *object)
{
	struct tek_profile_self *self = &tek_prof__self;

	for (unsigned int i = self->held; i-- > 0;) {
		if (self->holds[i].object != object)
			continue;
		struct tek_profile_object *counted = self->holds[i].counted;
		uint64_t took = tek_prof__ticks() - self->holds[i].since;
		counted->holds += self->holds[i].weight;
		counted->hold_ticks += took * self->holds[i].weight;
		if (took > counted->hold_most)
			counted->hold_most = took;
		self->holds[i] = self->holds[--self->held];
		return;
	}
}
