/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of tek/tek.h that tell and set what a thread is. */
#include "base/export.h"
#include "base/procfs.h"
#include "base/utf8.h"
#include "mediate/group.h"
#include "mediate/policy.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "mediate/rules.h"
#include "stack/config.h"
#include "stack/stack.h"
#include "threads/attributes.h"
#include "threads/index.h"
#include "threads/process.h"
#include "threads/record.h"

#include <errno.h>
#include <string.h>

#undef tek_gettid
TEK_EXPORT pid_t tek_gettid(void)
{
	return tek__gettid();
}

#undef tek_self_fast
TEK_EXPORT pid_t tek_self_fast(void)
{
	return tek_self_id_.tid;
}

TEK_EXPORT int tek_self_checked(pid_t *tid)
{
	/* Known to TEK, and no other thread runs with these variables: so no lock is needed. */
	const bool known = tek__process_is_known() && tek__self_use == TEK_SELF_OWN;

	if (!known || !tek__thread_known_self()) {
		if (!tek__lock())
			return ESRCH;
		const struct tek_thread *self = tek__thread_self();
		tek__unlock();
		if (!self)
			return ESRCH;
	}
	*tid = tek__gettid();
	return 0;
}

/* With the lock: whatever the quick ways did not find or could not read. */
__attribute__((noinline)) static int get(struct tek_target target,
					 struct tek_attributes *attributes)
{
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__lookup(target);
	int error = thread ? 0 : tek__lookup_error(target);
	/* The tid of a starting thread is unknown, unless the C library reports it. */
	if (thread &&
	    (!thread->tid || !tek__attributes_copy(thread->slot, thread->tid, attributes)))
		error = ESRCH;
	tek__unlock();
	return error;
}

__attribute__((noinline)) static int get_other(pthread_t handle, struct tek_attributes *attributes)
{
	if (tek__lock_brief()) {
		const struct tek_thread *thread = tek__thread_known(handle);
		bool copied = thread && thread->tracked &&
			      tek__attributes_copy(thread->slot, thread->tid, attributes);
		tek__unlock_brief();
		if (copied)
			return 0;
	}
	return get(tek__by_handle(handle), attributes);
}

TEK_EXPORT int tek_thread_get_attributes(pthread_t handle, struct tek_attributes *attributes)
{
	tek__region_keep_up();
	const struct tek_thread *self = tek__process_is_known() ? tek__thread_known_self() : NULL;
	if (self && self->handle == handle &&
	    tek__attributes_copy(self->slot, self->tid, attributes))
		return 0;
	return get_other(handle, attributes);
}

TEK_EXPORT int tek_tid_get_attributes(pid_t tid, struct tek_attributes *attributes)
{
	unsigned int slot;

	tek__region_keep_up();
	if (tid == 0)
		tid = tek__gettid();
	if (tek__process_is_known() && tek__index_find(tid, &slot) &&
	    tek__attributes_copy_watched(tek__table_at(slot), tid, attributes))
		return 0;
	int error = get(tek__by_tid(tid), attributes);
	if (error != EPERM)
		return error;
	error = tek__attributes_of_other(tid, attributes);
	return error ? error : tek_attributes_refresh(attributes);
}

TEK_EXPORT int tek_attributes_refresh(struct tek_attributes *attributes)
{
	bool is_fast = attributes->policy == SCHED_TEK, ending;
	struct tek_seen seen;
	int error = tek__scheduling_query(attributes->tid, &seen);

	if (error)
		return error == EPERM ? EACCES : error;
	if (tek__procfs_is_ending(attributes->tid, &ending) && ending)
		return ESRCH;
	if (!is_fast) {
		attributes->policy = seen.policy;
		attributes->priority = tek__seen_priority(seen);
	}
	if (tek__procfs_stat(attributes->tid, TEK_STAT_VM_BYTES, &attributes->vm_bytes))
		return 0;
	/* It may have ended meanwhile. */
	return tek__scheduling_query(attributes->tid, &seen) == ESRCH ? ESRCH : EACCES;
}

/* A role as the caller gave it, once it has been looked at. */
static int check_role(const char role[TEK_ROLE_BYTES], unsigned char *bytes)
{
	size_t length = strnlen(role, TEK_ROLE_BYTES);

	*bytes = (unsigned char)length;
	if (length == TEK_ROLE_BYTES)
		return ENAMETOOLONG;
	return tek__is_utf8(role, length) ? 0 : EILSEQ;
}

/* A checked request: of its settings only the policy can still fail. */
struct request {
	unsigned int which;
	const struct tek_attributes *attributes;
	unsigned char role_bytes;
};

static int check(struct request *request)
{
	const struct tek_attributes *attributes = request->attributes;
	unsigned int which = request->which;

	if (which & ~TEK_ATTRIBUTES_ALL)
		return EINVAL;
	if (which & TEK_ATTRIBUTE_CRITICAL && attributes->critical != 0 &&
	    attributes->critical != 1)
		return EINVAL;
	if (which & TEK_ATTRIBUTE_GROUP && (unsigned int)attributes->group > TEK_BACKGROUND)
		return EINVAL;
	return which & TEK_ATTRIBUTE_ROLE ? check_role(attributes->role, &request->role_bytes) : 0;
}

/* The policy first: if it is refused nothing has changed. Needs the lock. */
static int apply(struct tek_thread *thread, const struct request *request)
{
	const struct tek_attributes *attributes = request->attributes;
	unsigned int which = request->which;

	if (which & TEK_ATTRIBUTE_POLICY) {
		int error = tek__policy_give(thread, attributes->policy, attributes->priority);
		if (error)
			return error;
	}
	if (which & TEK_ATTRIBUTE_GROUP)
		tek__group_give(thread, attributes->group);
	if (which & TEK_ATTRIBUTE_CRITICAL)
		tek__region_mark(thread, attributes->critical);
	if (which & TEK_ATTRIBUTE_ROLE) {
		const unsigned int generation = thread->generation;
		tek__thread_set_role(thread, attributes->role, request->role_bytes);
		tek__rules_apply(thread);
		if (thread->generation == generation)
			tek__stack_labelled(thread);
	}
	return 0;
}

/* Whether it is a few writes to memory and nothing follows from them. */
static bool is_brief(const struct tek_thread *thread, const struct request *request)
{
	return !(request->which & TEK_ATTRIBUTE_ROLE && tek__stack_is_on()) &&
	       !(request->which & ~(TEK_ATTRIBUTE_ROLE | TEK_ATTRIBUTE_GROUP)) &&
	       !tek__region_has_marks() && !tek__rules_any &&
	       (!(request->which & TEK_ATTRIBUTE_GROUP) ||
		tek__group_is_brief(thread, request->attributes->group));
}

/* With the brief lock, which is released. Returns false if it has to be done with more care. */
static bool set_briefly(struct tek_thread *thread, const struct request *request)
{
	bool can = thread && thread->tracked && is_brief(thread, request);
	if (can && request->which & TEK_ATTRIBUTE_GROUP)
		tek__group_give_brief(thread, request->attributes->group);
	if (can && request->which & TEK_ATTRIBUTE_ROLE)
		tek__thread_set_role(thread, request->attributes->role, request->role_bytes);
	tek__unlock_brief();
	return can;
}

static int set(struct tek_target target, const struct request *request)
{
	if (!tek__lock())
		return EAGAIN;
	struct tek_thread *thread = tek__lookup(target);
	int error = thread ? apply(thread, request) : tek__lookup_error(target);
	tek__unlock();
	return error;
}

TEK_EXPORT int tek_thread_set_attributes(pthread_t handle, unsigned int which,
					 const struct tek_attributes *attributes)
{
	struct request request = {.which = which, .attributes = attributes};
	int error = check(&request);

	if (error || (tek__lock_brief() && set_briefly(tek__thread_known(handle), &request)))
		return error;
	return set(tek__by_handle(handle), &request);
}

TEK_EXPORT int tek_tid_set_attributes(pid_t tid, unsigned int which,
				      const struct tek_attributes *attributes)
{
	struct request request = {.which = which, .attributes = attributes};
	int error = check(&request);

	if (tid == 0)
		tid = tek__gettid();
	if (error || (tek__lock_brief() && set_briefly(tek__thread_known_tid(tid), &request)))
		return error;
	return set(tek__by_tid(tid), &request);
}

TEK_EXPORT int pthread_get_attributes(pthread_t handle, struct tek_attributes *attributes)
{
	return tek_thread_get_attributes(handle, attributes);
}

TEK_EXPORT int pthread_set_attributes(pthread_t handle, const struct tek_attributes *attributes)
{
	struct tek_attributes before;
	unsigned int which = TEK_ATTRIBUTES_ALL;
	int error = tek_thread_get_attributes(handle, &before);

	if (error)
		return error;
	if (before.policy == attributes->policy && before.priority == attributes->priority)
		which &= ~TEK_ATTRIBUTE_POLICY;
	return tek_thread_set_attributes(handle, which, attributes);
}
