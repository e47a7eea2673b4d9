/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/own_stacks.h"

#include "base/clock.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <string.h>

#define PATIENCE_NS 10000000000ull
/* A thread that is about to end needs a moment on its worker, as a rule. */
#define YIELDS 50

#define LISTS 64 /* a power of 2 */
static struct list {
	struct tek_spin lock;
	struct tek_uthread *first;
} lists[LISTS];

static struct list *list_of(const void *low)
{
	return &lists[((uintptr_t)low >> 12) % LISTS];
}

void tek_ut__own_stack_taken(struct tek_uthread *thread, void *low)
{
	struct list *list = list_of(low);

	thread->own_stack = low;
	tek_ut__spin_lock(&list->lock);
	thread->next_on_own_stack = list->first;
	list->first = thread;
	tek_ut__spin_unlock(&list->lock);
}

void tek_ut__own_stack_left(struct tek_uthread *thread)
{
	struct list *list = list_of(thread->own_stack);
	struct tek_uthread **place = &list->first;

	tek_ut__spin_lock(&list->lock);
	while (*place != thread)
		place = &(*place)->next_on_own_stack;
	*place = thread->next_on_own_stack;
	tek_ut__spin_unlock(&list->lock);
	thread->own_stack = NULL;
}

static bool is_in_use(const void *low)
{
	struct list *list = list_of(low);

	tek_ut__enter();
	tek_ut__spin_lock(&list->lock);
	const struct tek_uthread *thread = list->first;
	while (thread && thread->own_stack != low)
		thread = thread->next_on_own_stack;
	tek_ut__spin_unlock(&list->lock);
	tek_ut__leave();
	return thread != NULL;
}

int tek_ut__own_stack_await(const void *low)
{
	const uint64_t limit = tek__now(CLOCK_MONOTONIC) + PATIENCE_NS;

	for (unsigned int tries = 0; is_in_use(low); tries++) {
		if (tek__now(CLOCK_MONOTONIC) > limit)
			return EAGAIN;
		if (tries < YIELDS && tek_ut__is_uthread()) {
			tek_ut__enter();
			tek_ut__yield(TEK_READY_YIELDED);
			tek_ut__leave();
		} else {
			tek_ut__pause();
		}
	}
	return 0;
}

void tek_ut__own_stacks_after_fork(void)
{
	struct tek_uthread *self = tek_ut__here_self();

	memset(lists, 0, sizeof(lists));
	if (self && self->own_stack)
		tek_ut__own_stack_taken(self, self->own_stack);
}
