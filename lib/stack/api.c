/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of tek/tek.h about stacks. */
#include "base/export.h"
#include "stack/config.h"
#include "stack/measure.h"
#include "stack/stack.h"
#include "tek_abi.h"
#include "threads/lookup.h"
#include "threads/process.h"
#include "threads/record.h"

#include <errno.h>
#include <tek/tek.h>

static bool measure(const struct tek_thread *thread, struct tek_stack_use *use)
{
	return thread == tek__thread_known_self() ? tek__measure_self(&thread->stack, use)
						  : tek__measure_other_roughly(&thread->stack, use);
}

/* Needs the lock. */
static int measure_now(struct tek_thread *thread, struct tek_stack_info *info)
{
	struct tek_stack *stack = &thread->stack;
	struct tek_stack_use use;

	if (!tek__stack_locate_other(thread) || !measure(thread, &use))
		return ENODATA;
	/* A use that may be an earlier thread's is reported, but not learnt. */
	if (tek__stack_is_on() && !(use.flags & TEK_STACK_UNCLEAN)) {
		if (use.peak_bytes > stack->use.peak_bytes ||
		    use.bound_bytes != stack->use.bound_bytes) {
			tek__stack_measured(thread, &use);
			tek__thread_publish(thread);
		}
		info->zone = stack->zone;
		use = stack->use;
	} else {
		info->zone = tek__stack_zone(stack, &use);
	}
	info->stack_bytes = stack->bytes;
	info->peak_bytes = use.peak_bytes;
	info->bound_bytes = use.bound_bytes;
	info->exact = (use.flags & TEK_STACK_EXACT) != 0;
	return 0;
}

static int get(struct tek_target target, struct tek_stack_info *info)
{
	int error;

	tek__stack_locate_slowly();
	if (!tek__lock())
		return EAGAIN;
	/* For a thread with a destructor the kernel need not be queried whether it exists. */
	struct tek_thread *thread = tek__lookup_known(target);
	if (!thread || !thread->tracked)
		thread = tek__lookup(target);
	if (!thread)
		error = tek__lookup_error(target);
	else if (!thread->tid)
		error = ESRCH;
	else
		error = measure_now(thread, info);
	tek__unlock();
	return error;
}

TEK_EXPORT int tek_stack_get(pthread_t thread, struct tek_stack_info *info)
{
	return get(tek__by_handle(thread), info);
}

TEK_EXPORT int tek_tid_stack_get(pid_t tid, struct tek_stack_info *info)
{
	return get(tek__by_tid(tid), info);
}
