/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/record.h"

#include "base/page.h"
#include "threads/process.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

static tek_u8 flags_of(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	return (tek_u8)((member->marked ? TEK_FLAG_MARKED : 0) |
			(thread->named ? TEK_FLAG_NAMED : 0) |
			(thread->tid == tek__pid() ? TEK_FLAG_MAIN : 0) |
			(thread->adopted ? TEK_FLAG_ADOPTED : 0) |
			(member->overruns ? TEK_FLAG_OVERRAN : 0) |
			(thread->tracked ? 0 : TEK_FLAG_UNWATCHED) |
			(member->reasons & TEK_WHY_POLICY ? TEK_FLAG_ASKED : 0));
}

static tek_u8 place_of(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	return (tek_u8)(member->group << TEK_PLACE_GROUP_SHIFT |
			(member->fast ? TEK_REGION_FAST : TEK_REGION_NONE)
				<< TEK_PLACE_REGION_SHIFT |
			thread->stack.zone << TEK_PLACE_ZONE_SHIFT);
}

static tek_u16 bound_pages(uint32_t bytes)
{
	size_t pages = (bytes + tek__page_bytes - 1) >> __builtin_ctzl(tek__page_bytes);
	return pages < UINT16_MAX ? (tek_u16)pages : UINT16_MAX;
}

static struct tek_record record_of(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	return (struct tek_record){
		.tid = (tek_u32)thread->tid,
		.start_ns = thread->start_ns,
		.start_routine = thread->birth.function,
		/* A power of two: a shift instead of a division. */
		.stack_pages = (tek_u32)(thread->stack.bytes >> __builtin_ctzl(tek__page_bytes)),
		.peak_bytes = thread->stack.use.peak_bytes,
		.bound_pages = bound_pages(thread->stack.use.bound_bytes),
		.role_bytes = thread->role_bytes,
		.policy = member->fast ? TEK_SCHED_POLICY : thread->seen.policy,
		.priority = member->fast ? member->nice : tek__seen_priority(thread->seen),
		.place = place_of(thread),
		.flags = flags_of(thread),
	};
}

static struct tek_side side_of(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	struct tek_side side = {
		.fast_ns = member->fast_ns,
		.fast_since_ns = member->fast_since_ns,
		.stays = member->stays,
		.overruns = member->overruns,
		.creator_tid = (tek_u32)thread->birth.creator,
		.call_site = thread->birth.call_site,
		.reasons = member->reasons,
		.rule = member->rule,
		.own_policy = thread->seen.policy,
		.own_priority = tek__seen_priority(thread->seen),
		.kind = thread->stack.kind,
		.stack_flags = thread->stack.flags | thread->stack.use.flags,
		.stack_end = thread->stack.end,
		.lifted_for = member->reasons & TEK_WHY_LIFT ? (tek_u32)member->lifted_for : 0,
	};
	if (member->fast) {
		side.base_policy = member->base.policy;
		side.base_priority = member->base.priority;
		side.base_flags = TEK_BASE_SAVED |
				  (member->base.reset_on_fork ? TEK_BASE_RESET_ON_FORK : 0);
		side.rt_priority = member->rt_priority;
		side.later_rt_priority = member->later_rt_priority;
	}
	memcpy(side.name, thread->name, sizeof(side.name));
	return side;
}

void tek__thread_publish(struct tek_thread *thread)
{
	if (!thread->tid)
		return; /* it will do so itself when it begins */
	const struct tek_record record = record_of(thread);
	const struct tek_side side = side_of(thread);
	tek__table_write(thread->slot, &record, &side, thread->role);
}

void tek__thread_publish_record(struct tek_thread *thread)
{
	if (!thread->tid)
		return;
	const struct tek_record record = record_of(thread);
	tek__table_write(thread->slot, &record, NULL, NULL);
}

void tek__thread_set_name(struct tek_thread *thread, const char *name)
{
	strncpy(thread->name, name, sizeof(thread->name) - 1);
	thread->name[sizeof(thread->name) - 1] = '\0';
	thread->named = true;
	memcpy(thread->kernel_name, thread->name, sizeof(thread->kernel_name));
	tek__thread_publish(thread);
}

/* Zeros after the role: the caller's bytes there stay private, and the role is copied by words. */
static void copy_role(char to[TEK_ROLE_BYTES], const char from[TEK_ROLE_BYTES], unsigned int bytes)
{
	for (unsigned int i = 0; i < TEK_ROLE_BYTES; i += sizeof(uint64_t)) {
		uint64_t word, all = UINT64_MAX, some = (UINT64_C(1) << bytes % 8 * 8) - 1;
		memcpy(&word, from + i, sizeof(word));
		word &= i + 8 <= bytes ? all : i <= bytes ? htole64(some) : 0;
		memcpy(to + i, &word, sizeof(word));
	}
}

void tek__thread_set_role(struct tek_thread *thread, const char role[TEK_ROLE_BYTES],
			  unsigned char bytes)
{
	copy_role(thread->own_role, role, bytes);
	thread->role = thread->own_role;
	thread->role_bytes = bytes;
	if (!thread->tid)
		return;
	const struct tek_record record = record_of(thread);
	tek__table_write(thread->slot, &record, NULL, thread->role);
}
