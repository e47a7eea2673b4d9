/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/thread.h"

#include "tek_abi.h"
#include "uthread/critical.h"
#include "uthread/engine.h"
#include "uthread/own_stacks.h"
#include "uthread/sanitizer.h"
#include "uthread/shown.h"
#include "uthread/stacks.h"
#include "uthread/tls.h"
#include "uthread/trace.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t last_id = 1; /* the first thread has 1 */

static uint64_t new_id(void)
{
	if (tek_ut__parallel())
		return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	uint64_t id = atomic_load_explicit(&last_id, memory_order_relaxed) + 1;
	atomic_store_explicit(&last_id, id, memory_order_relaxed);
	return id;
}

/* The calling thread is over, but for the switch to the returned one. */
static struct tek_uthread *finish(void *result)
{
	struct tek_uthread *self = tek_ut__here_self();

	if (self->at_end)
		self->at_end(self);
	tek_ut__enter();
	tek_ut__shown_ends(self);
	self->result = result;
	return tek_ut__end_current();
}

/*
 * A new thread begins here, and ends as a rule. It arrives from a switch, so preemption is
 * deferred.
 */
TEK_FIBER_UNWATCHED static const struct tek_context *begin(void *argument)
{
	struct tek_uthread *self = argument;

	tek_ut__fiber_arrived(self);
	tek_ut__after_switch(tek_ut__here_worker());
	tek_ut__leave();
	struct tek_uthread *next = finish(self->routine(self->argument));
	tek_ut__fiber_switch(self, next, true);
	return &next->context;
}

/*
 * Resets the state of an earlier thread in the same structure, but for parts that their owners
 * clear.
 */
static void reset(struct tek_uthread *thread)
{
	atomic_store_explicit(&thread->token, TEK_TOKEN_NONE, memory_order_relaxed);
	thread->defer = 1; /* as if it had been switched away from */
	thread->carrier = NULL;
	thread->bound = thread->changed = thread->stopped = false;
	thread->sched = (struct tek_sched_state){.next = NULL};
	thread->mask = 0;
	thread->result = NULL;
	thread->name[0] = '\0';
	thread->waits_for = TEK_WAITS_NO;
	thread->interruptible = NULL;
	thread->interrupted = false;
	thread->sync_parked = NULL;
	thread->sync_unparked = false;
	thread->read_locks = 0;
	thread->keys = thread->posix = thread->fiber = NULL;
	thread->at_end = NULL;
}

/* The state that a thread inherits from its creator: as the C library's threads. */
static void inherit(struct tek_uthread *thread, const struct tek_uthread_creation *creation)
{
	const struct tek_uthread *self = tek_ut__here_self();

	if (self) {
		thread->mask = self->mask;
		thread->sched.priority = self->sched.priority;
	}
	if (!creation)
		return;
	tek_ut__critical_set(thread, creation->critical);
	if (creation->has_priority)
		thread->sched.priority = creation->priority;
}

struct tek_uthread *tek_ut__new(const struct tek_uthread_creation *creation,
				void *(*routine)(void *), void *argument)
{
	struct tek_worker *worker = tek_ut__here_worker();
	/* With a stack of the program's own only the structure is used. */
	size_t bytes = creation && !creation->stack ? creation->stack_bytes : 0;
	struct tek_uthread *thread = tek_ut__stacks_take(worker, bytes);

	if (!thread)
		return NULL;
	reset(thread);
	thread->routine = routine;
	thread->argument = argument;
	thread->id = new_id();
	inherit(thread, creation);
	bool detached = creation && creation->detached;
	atomic_store_explicit(&thread->joiner, detached ? TEK_JOIN_DETACHED : TEK_JOIN_NONE,
			      memory_order_relaxed);
	thread->here = NULL;
	if (tek_ut__engine.own_tls && tek_ut__tls_give(thread) != 0) {
		thread->id = 0;
		tek_ut__stacks_give(worker, thread);
		return NULL;
	}
	if (thread->here) {
		thread->here->self = thread;
		thread->here->defer = 1;
		thread->here->pending = 0;
	}
	bool own = creation && creation->stack;
	char *low = own ? creation->stack : thread->stack_low;
	char *top = own ? low + creation->stack_bytes : (char *)thread;
	if (own)
		tek_ut__own_stack_taken(thread, low);
	/* First: a sanitizer may still watch the frames of the stack's previous thread. */
	tek_ut__fiber_new(thread, low, (size_t)(top - low));
	tek__context_make(&thread->context, top, begin, thread);
	return thread;
}

void tek_ut__launch(struct tek_uthread *thread)
{
	tek_ut__ready(thread, TEK_READY_CREATED);
}

/* Structure and stack can be reused. */
static void give_back(struct tek_uthread *thread)
{
	tek_ut__fiber_end(thread);
	if (thread->here)
		tek_ut__tls_take(thread);
	thread->id = 0;
	if (thread->block_bytes) /* else it is the first thread's */
		tek_ut__stacks_give(tek_ut__here_worker(), thread);
}

void tek_ut__drop(struct tek_uthread *thread)
{
	if (thread->own_stack)
		tek_ut__own_stack_left(thread);
	give_back(thread);
}

_Noreturn void tek_ut__end(void *result)
{
	struct tek_uthread *self = tek_ut__here_self();
	struct tek_uthread *next = finish(result);

	tek_ut__fiber_switch(self, next, true);
	tek__context_go(&next->context);
}

static uintptr_t swap_joiner(struct tek_uthread *thread, uintptr_t value)
{
	if (tek_ut__parallel())
		return atomic_exchange(&thread->joiner, value);
	uintptr_t old = atomic_load_explicit(&thread->joiner, memory_order_relaxed);
	atomic_store_explicit(&thread->joiner, value, memory_order_relaxed);
	return old;
}

/* If it is `from`. */
static bool change_joiner(struct tek_uthread *thread, uintptr_t from, uintptr_t to)
{
	if (tek_ut__parallel())
		return atomic_compare_exchange_strong(&thread->joiner, &from, to);
	if (atomic_load_explicit(&thread->joiner, memory_order_relaxed) != from)
		return false;
	atomic_store_explicit(&thread->joiner, to, memory_order_relaxed);
	return true;
}

void tek_ut__ended(struct tek_uthread *thread)
{
	if (__builtin_expect(thread->own_stack != NULL, 0))
		tek_ut__own_stack_left(thread);

	uintptr_t joiner = swap_joiner(thread, TEK_JOIN_ENDED);

	/* From here on it may have been joined, unless it is not joinable. */
	if (joiner == TEK_JOIN_DETACHED) {
		give_back(thread);
	} else if (joiner != TEK_JOIN_NONE) {
		struct tek_waiter *waiter = (struct tek_waiter *)joiner;
		/*
		 * A joiner that has given up meanwhile waits until the waiter is not accessed any
		 * more: wait_for_waker().
		 */
		if (!tek_ut__wake(waiter, TEK_WOKEN))
			__atomic_store_n(&waiter->data, thread, __ATOMIC_RELEASE);
	}
}

/*
 * The calling thread has stopped waiting for another reason, but the thread has ended all the same.
 * Another worker is just waking the waiter, which lies on this stack.
 */
static void wait_for_waker(struct tek_waiter *waiter)
{
	for (unsigned int i = 1; !__atomic_load_n(&waiter->data, __ATOMIC_ACQUIRE); i++) {
		tek_ut__relax();
		if (i % TEK_SPIN_TRIES == 0)
			syscall(SYS_sched_yield);
	}
}

int tek_ut__join(struct tek_uthread *thread, void **result, const struct timespec *deadline)
{
	struct tek_waiter waiter;

	if (thread == tek_ut__here_self())
		return EDEADLK;
	tek_ut__waiter_init(&waiter);
	tek_ut__enter();
	uintptr_t joiner = atomic_load_explicit(&thread->joiner, memory_order_acquire);
	if (joiner == TEK_JOIN_NONE && change_joiner(thread, TEK_JOIN_NONE, (uintptr_t)&waiter)) {
		enum tek_wake how = tek_ut__wait_interruptible(&waiter, deadline, TEK_WAITS_JOIN);
		if (how != TEK_WOKEN) {
			if (change_joiner(thread, (uintptr_t)&waiter, TEK_JOIN_NONE)) {
				tek_ut__leave();
				return how == TEK_TIMED_OUT ? ETIMEDOUT : EINTR;
			}
			wait_for_waker(&waiter);
		}
	} else if (atomic_load_explicit(&thread->joiner, memory_order_acquire) != TEK_JOIN_ENDED) {
		tek_ut__leave();
		return EINVAL;
	}
	if (result)
		*result = thread->result;
	give_back(thread);
	tek_ut__leave();
	return 0;
}

int tek_ut__detach(struct tek_uthread *thread)
{
	int error = 0;

	tek_ut__enter();
	if (!change_joiner(thread, TEK_JOIN_NONE, TEK_JOIN_DETACHED)) {
		if (change_joiner(thread, TEK_JOIN_ENDED, TEK_JOIN_DETACHED))
			give_back(thread);
		else
			error = EINVAL;
	}
	tek_ut__leave();
	return error;
}
