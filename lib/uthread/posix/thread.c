/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/thread.h"

#include "base/module.h"
#include "base/start_routine.h"
#include "uthread/bound.h"
#include "uthread/engine.h"
#include "uthread/own_stacks.h"
#include "uthread/posix/attr.h"
#include "uthread/posix/cancel.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/fit.h"
#include "uthread/posix/frame.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/sched.h"
#include "uthread/posix/signal.h"
#include "uthread/posix/state.h"
#include "uthread/posix/teller.h"
#include "uthread/reserved.h"
#include "uthread/stacks.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <threads.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static size_t page_bytes(void)
{
	static size_t bytes;
	if (!bytes)
		bytes = (size_t)sysconf(_SC_PAGESIZE);
	return bytes;
}

static void *begin(void *argument)
{
	struct tek_posix *self = argument;

	if (tek_ut__engine.own_tls)
		tek_ut__tls_begin_current();
	self->begun = true;
	void *result;
	if (self->c11) {
		thrd_start_t routine = (thrd_start_t)(void (*)(void))self->routine;
		result = (void *)(intptr_t)routine(self->argument);
	} else {
		result = self->routine(self->argument);
	}
	tek_ut__posix_finish();
	return result;
}

/*
 * The engine's guard is one page. For a larger one the lowest part of the stack becomes guard, too.
 */
static size_t extra_guard(const struct tek_attr *attr)
{
	size_t bytes = (attr->guard_bytes + page_bytes() - 1) / page_bytes() * page_bytes();
	return !attr->stack && bytes > page_bytes() ? bytes - page_bytes() : 0;
}

/* The most stack that the tick's handler uses, below the kernel's frame. */
#define HANDLER_BYTES ((size_t)2048)
/*
 * The C library's least use of a thread's stack: its structure of the thread, and thread-local
 * storage.
 */
#define C_LIBRARY_BYTES ((size_t)4096)
/* Programs that choose a size below this use nearly all of it. */
#define SMALL_BYTES ((size_t)64 << 10)

/* Or the least there is, which is 128 KiB on aarch64. */
static bool is_small(size_t bytes)
{
	return bytes < SMALL_BYTES || bytes <= (size_t)sysconf(_SC_THREAD_STACK_MIN);
}

/*
 * For a thread with a set size. A tick may put a signal frame onto any stack. A small stack has
 * extra room for that and the handler below. In a larger one the frame uses the room of the C
 * library's data, which lies elsewhere here: an overflow occurs at the depth that it has without
 * the engine, or deeper by what the stack's size is rounded up (stacks.c).
 */
static size_t stack_bytes(const struct tek_attr *attr)
{
	const size_t frame = tek_ut__frame_bytes();

	if (is_small(attr->stack_bytes))
		return attr->stack_bytes + frame + HANDLER_BYTES;
	return attr->stack_bytes + (frame > C_LIBRARY_BYTES ? frame - C_LIBRARY_BYTES : 0);
}

/* Sizes of stacks are rounded: the part above the requested size is guard, too. */
static size_t down_to_asked(const struct tek_uthread *thread, const struct tek_attr *attr,
			    size_t extra)
{
	if (!attr->stack_bytes)
		return extra;
	const char *low = tek_ut__stack_end(thread) - stack_bytes(attr);
	return (size_t)(low - thread->stack_low) / page_bytes() * page_bytes();
}

static bool guard(char *low, size_t bytes)
{
	return madvise(low, bytes, MADV_GUARD_INSTALL) == 0 || mprotect(low, bytes, PROT_NONE) == 0;
}

void tek_ut__posix_leave_stack(struct tek_posix *self)
{
	if (self->extra_guard) {
		char *low = tek_ut__posix_thread(self)->stack_low;
		if (madvise(low, self->extra_guard, MADV_GUARD_REMOVE) != 0)
			mprotect(low, self->extra_guard, PROT_READ | PROT_WRITE);
	}
	free(self->cpus);
	self->cpus = NULL;
}

static struct tek_uthread_creation creation_of(const struct tek_attr *attr, size_t extra)
{
	struct tek_uthread_creation creation = {.detached = attr->detached, .stack = attr->stack};

	if (attr->stack)
		creation.stack_bytes = attr->stack_bytes;
	else if (attr->stack_bytes || extra)
		creation.stack_bytes = (attr->stack_bytes ? stack_bytes(attr)
							  : tek_ut__sched_default_stack()) +
				       extra;
	if (attr->explicit_sched) {
		creation.critical = attr->policy == TEK_SCHED_POLICY;
		creation.has_priority = true;
		creation.priority = (signed char)tek_ut__sched_rank(attr->policy, attr->priority);
	} else {
		creation.critical = tek_ut__here_self()->sched.critical;
	}
	return creation;
}

/*
 * As the C library reports it: a requested size is that of everything down from the end of its
 * memory.
 */
static void describe_stack(struct tek_posix *posix, const struct tek_uthread *thread,
			   const struct tek_attr *attr)
{
	char *low = thread->stack_low + posix->extra_guard;
	char *end = tek_ut__stack_end(thread);

	posix->own_stack = attr->stack != NULL;
	posix->stack = attr->stack         ? attr->stack
		       : attr->stack_bytes ? end - attr->stack_bytes
					   : low;
	posix->stack_bytes = attr->stack_bytes ? attr->stack_bytes : (size_t)(end - low);
}

/* The record of a new thread. Deferred. */
static void describe(struct tek_posix *posix, struct tek_uthread *thread,
		     const struct tek_attr *attr, size_t extra)
{
	const struct tek_posix *creator = tek_ut__posix_self();

	atomic_store(&posix->policy,
		     attr->explicit_sched ? attr->policy : atomic_load(&creator->policy));
	atomic_store(&posix->priority,
		     attr->explicit_sched ? attr->priority : atomic_load(&creator->priority));
	atomic_store(&posix->flags, attr->detached ? TEK_POSIX_DETACHED : 0);
	posix->guard_bytes = attr->guard_bytes;
	posix->extra_guard = extra;
	describe_stack(posix, thread, attr);
	thread->mask = (attr->has_mask ? attr->mask : thread->mask) & ~tek_ut__own_signals();
	tek_ut__posix_give(posix, thread);
}

int tek_ut__posix_create(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
			 void *argument, bool c11, const void *call_site)
{
	struct tek_attr read;
	int error = tek_ut__attr_read(attr, &read);

	if (error)
		return error;
	if (!tek_ut__table_is_settled)
		tek_ut__posix_table_open();
	struct tek_table_birth birth = {
		.function = tek__start_routine(&tek__files, (uintptr_t)routine, argument).function,
		.call_site = (uintptr_t)call_site,
		.creator = tek_ut__here_self()->id,
		.explicit_size = read.stack_bytes != 0,
	};
	birth.fitted = tek_ut__posix_fit(&read, birth.function, birth.call_site);
	size_t extra = extra_guard(&read);
	const struct tek_uthread_creation creation = creation_of(&read, extra);
	if (read.stack)
		error = tek_ut__own_stack_await(read.stack);
	if (error)
		return error;
	error = EAGAIN;
	if (tek_ut__engine.own_tls && tek_ut__tls_reserve() != 0)
		return error;
	tek_ut__state_finish();
	tek_ut__signal_mask_without_own();
	/* After a change of kernel state a new kernel thread inherits from the caller's. */
	struct tek_carrier *carrier = NULL;
	if (tek_ut__here_self()->changed && !(carrier = tek_ut__carrier_start_dedicated()))
		return error;
	tek_ut__enter();
	struct tek_posix *posix = tek_ut__posix_new();
	if (!posix)
		goto out;
	struct tek_uthread *thread = tek_ut__new(&creation, begin, posix);
	if (!thread) {
		tek_ut__posix_free(posix);
		goto out;
	}
	if (extra)
		extra = down_to_asked(thread, &read, extra);
	if (extra && !guard(thread->stack_low, extra)) {
		tek_ut__drop(thread);
		tek_ut__posix_free(posix);
		goto out;
	}
	if (carrier)
		tek_ut__bound_create(thread, carrier);
	posix->routine = routine;
	posix->argument = argument;
	posix->c11 = c11;
	describe(posix, thread, &read, extra);
	const unsigned int threads = atomic_fetch_add(&tek_ut__posix_threads, 1) + 1;
	tek_ut__table_created(thread, &birth, threads);
	*handle = tek_ut__posix_handle(thread);
	tek_ut__launch(thread);
	error = 0;
out:
	tek_ut__leave();
	if (error && carrier)
		tek_ut__carrier_dismiss(carrier);
	return error;
}

/* It has been joined: its structure is the engine's again. */
static void forget(struct tek_posix *posix)
{
	tek_ut__enter();
	tek_ut__posix_free(posix);
	tek_ut__leave();
}

static int join(struct tek_posix *posix, struct tek_uthread *thread, void **result,
		struct tek_until until)
{
	const struct timespec *deadline;
	struct timespec room;
	int error;

	if (atomic_load(&thread->joiner) != TEK_JOIN_ENDED) {
		error = tek__until_deadline(until, &room, &deadline);
		if (error)
			return error;
	} else {
		deadline = NULL;
	}
	while ((error = tek_ut__join(thread, result, deadline)) == EINTR)
		tek_ut__interrupted();
	if (!error)
		forget(posix);
	return error;
}

int tek_ut__posix_join(struct tek_posix *posix, void **result, struct tek_until until)
{
	struct tek_uthread *thread = tek_ut__posix_thread(posix);
	struct tek_posix *self = tek_ut__posix_self();

	tek_ut__cancel_point();
	if (!thread)
		return ESRCH;
	if (!self)
		return join(posix, thread, result, until);
	/* Two threads that join each other wait for ever. */
	if (atomic_load(&posix->joins) == tek_ut__posix_thread(self))
		return EDEADLK;
	atomic_store(&self->joins, thread);
	int error = join(posix, thread, result, until);
	atomic_store(&self->joins, NULL);
	return error;
}

int tek_ut__posix_try_join(struct tek_posix *posix, void **result)
{
	struct tek_uthread *thread = tek_ut__posix_thread(posix);

	if (!thread)
		return ESRCH;
	if (thread != tek_ut__here_self() && atomic_load(&thread->joiner) == TEK_JOIN_NONE)
		return EBUSY;
	return join(posix, thread, result, TEK_FOR_EVER);
}

int tek_ut__posix_detach(struct tek_posix *posix)
{
	struct tek_uthread *thread = tek_ut__posix_thread(posix);

	if (!thread)
		return ESRCH;
	/* The engine decides whether it can be: only one of several callers gets 0. */
	tek_ut__enter();
	int error = tek_ut__detach(thread);
	if (!error && (atomic_fetch_or(&posix->flags, TEK_POSIX_DETACHED) & TEK_POSIX_ENDED))
		tek_ut__posix_free(posix);
	tek_ut__leave();
	return error;
}

void tek_ut__posix_yield(void)
{
	tek_ut__enter();
	tek_ut__yield(TEK_READY_YIELDED);
	tek_ut__leave();
	if (tek_ut__cancel_is_due_at_once(tek_ut__posix_flags(tek_ut__posix_self())))
		tek_ut__cancel_point();
}
