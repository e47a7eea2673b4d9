/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/handles.h"

#include <string.h>

enum { BUCKETS = 1024 };

static struct tek_thread *buckets[BUCKETS];

static struct tek_thread **bucket_of(pthread_t handle)
{
	/* pthread_t is an address of a page-aligned block plus a constant. */
	uintptr_t value = (uintptr_t)handle;
	return &buckets[(value >> 12 ^ value >> 22) % BUCKETS];
}

struct tek_thread *tek__handles_find(pthread_t handle)
{
	struct tek_thread *thread = *bucket_of(handle);
	while (thread && thread->handle != handle)
		thread = thread->next;
	return thread;
}

void tek__handles_insert(struct tek_thread *thread)
{
	struct tek_thread **bucket = bucket_of(thread->handle);
	thread->next = *bucket;
	*bucket = thread;
}

void tek__handles_remove(struct tek_thread *thread)
{
	struct tek_thread **link = bucket_of(thread->handle);
	while (*link && *link != thread)
		link = &(*link)->next;
	if (*link)
		*link = thread->next;
}

void tek__handles_forget(void)
{
	memset(buckets, 0, sizeof(buckets));
}
