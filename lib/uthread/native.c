/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of tek/uthread.h about the engine and its threads; those about objects are in
 * native_objects.c.
 */
#include "base/clock.h"
#include "base/export.h"
#include "uthread/critical.h"
#include "uthread/engine.h"
#include "uthread/guard.h"
#include "uthread/inherit.h"
#include "uthread/key.h"
#include "uthread/native_table.h"
#include "uthread/overflow.h"
#include "uthread/table.h"
#include "uthread/thread.h"
#include "uthread/trace.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tek/uthread.h>

/* ---- the engine ---- */

static const char *first_wrong;

static void note_wrong(const char *text, size_t size, const char *why)
{
	(void)text, (void)size;
	if (!first_wrong)
		first_wrong = why;
}

/* fork(): the calling thread stays on its worker meanwhile, and is alone in the child. */
static void before_fork(void)
{
	tek_ut__guards_enter_and_close();
}

static void in_parent(void)
{
	tek_ut__guards_open();
	tek_ut__leave();
}

static void in_child(void)
{
	tek_ut__table_after_fork();
	tek_ut__engine_after_fork();
	tek_ut__leave();
}

TEK_EXPORT int tek_uthread_start(const char *options, const char **wrong)
{
	const char *variable = getenv("TEK_UTHREAD");
	struct tek_engine_options wanted;

	if (wrong)
		*wrong = NULL;
	if (tek_ut__engine_runs())
		return EBUSY;
	wanted = tek_ut__engine_defaults();
	first_wrong = NULL;
	if (variable)
		tek_ut__engine_parse(&wanted, variable, tek_ut__engine_complain);
	if (options)
		tek_ut__engine_parse(&wanted, options, note_wrong);
	if (wrong)
		*wrong = first_wrong;
	if (first_wrong)
		return EINVAL;
	int error = tek_ut__engine_start(&wanted);
	if (error)
		return error;
	tek_ut__overflow_watch();
	tek_ut__native_table_start();
	return pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- threads ---- */

/* A thread with values of keys, or mutexes, has more to do at its end. */
static void end(struct tek_uthread *thread)
{
	if (thread->keys)
		tek_ut__keys_end();
}

static bool is_priority(int priority)
{
	return priority >= TEK_UTHREAD_PRIORITY_MIN && priority <= TEK_UTHREAD_PRIORITY_MAX;
}

static int read_attributes(const struct tek_uthread_attributes *attributes,
			   struct tek_uthread_creation *creation)
{
	if ((attributes->detached & ~1) || (attributes->critical & ~1) ||
	    (attributes->has_priority & ~1) ||
	    (attributes->has_priority && !is_priority(attributes->priority)))
		return EINVAL;
	if (attributes->stack && (attributes->stack_bytes < TEK_UTHREAD_STACK_LEAST ||
				  (uintptr_t)attributes->stack % 16))
		return EINVAL;
	if (attributes->name && strlen(attributes->name) >= TEK_UTHREAD_NAME_BYTES)
		return ERANGE;
	*creation = (struct tek_uthread_creation){
		.stack_bytes = attributes->stack_bytes,
		.stack = attributes->stack,
		.detached = attributes->detached,
		.critical = attributes->critical,
		.has_priority = attributes->has_priority,
		.priority = (signed char)attributes->priority,
	};
	return 0;
}

static int create(tek_uthread_t *result, const struct tek_uthread_creation *creation,
		  const char *name, void *(*routine)(void *), void *argument)
{
	tek_ut__enter();
	struct tek_uthread *thread = tek_ut__new(creation, routine, argument);
	if (__builtin_expect(thread != NULL, 1)) {
		thread->at_end = end;
		if (name) {
			strcpy(thread->name, name);
			tek_ut__trace_named(thread);
		}
		*result = thread;
		tek_ut__launch(thread);
	}
	tek_ut__leave();
	return thread ? 0 : EAGAIN;
}

/* The first thread that a program creates, or that the child of a fork does. */
__attribute__((cold, noinline)) static int begin(void)
{
	int error = tek_ut__engine_runs() ? 0 : tek_uthread_start(NULL, NULL);

	if (!error && tek_ut__is_uthread())
		tek_ut__native_table_open();
	return error;
}

TEK_EXPORT int tek_uthread_create(tek_uthread_t *thread,
				  const struct tek_uthread_attributes *attributes,
				  void *(*routine)(void *), void *argument)
{
	struct tek_uthread_creation creation;
	int error;

	if (__builtin_expect(!tek_ut__table_is_settled, 0)) {
		error = begin();
		if (error)
			return error;
	}
	if (!attributes)
		return create(thread, NULL, NULL, routine, argument);
	error = read_attributes(attributes, &creation);
	return error ? error : create(thread, &creation, attributes->name, routine, argument);
}

TEK_EXPORT int tek_uthread_join_until(tek_uthread_t thread, void **result,
				      const struct timespec *deadline)
{
	int error;

	/* Threads of this library are not interrupted, but an engine's call may return EINTR. */
	do {
		error = tek_ut__join(thread, result, deadline);
	} while (error == EINTR);
	return error;
}

TEK_EXPORT int tek_uthread_join(tek_uthread_t thread, void **result)
{
	return tek_uthread_join_until(thread, result, NULL);
}

TEK_EXPORT int tek_uthread_detach(tek_uthread_t thread)
{
	return tek_ut__detach(thread);
}

TEK_EXPORT _Noreturn void tek_uthread_exit(void *result)
{
	/* The first thread, which was not created. */
	if (!tek_ut__here_self()->at_end)
		end(tek_ut__here_self());
	tek_ut__end(result);
}

static int yield(void)
{
	if (tek_ut__enter())
		tek_ut__yield(TEK_READY_YIELDED);
	tek_ut__leave();
	return 0;
}

TEK_EXPORT void tek_uthread_yield(void)
{
	tek__context_call(yield);
}

TEK_EXPORT tek_uthread_t tek_uthread_self(void)
{
	return tek_ut__here_self();
}

TEK_EXPORT int tek_uthread_equal(tek_uthread_t one, tek_uthread_t other)
{
	return one == other;
}

TEK_EXPORT uint64_t tek_uthread_id(tek_uthread_t thread)
{
	return thread->id;
}

TEK_EXPORT int tek_uthread_set_name(tek_uthread_t thread, const char *name)
{
	size_t bytes = strlen(name) + 1;

	if (bytes > sizeof(thread->name))
		return ERANGE;
	memcpy(thread->name, name, bytes);
	tek_ut__enter();
	tek_ut__trace_named(thread);
	tek_ut__table_named(thread);
	tek_ut__leave();
	return 0;
}

TEK_EXPORT int tek_uthread_get_name(tek_uthread_t thread, char *name, size_t bytes)
{
	size_t needed = strnlen(thread->name, sizeof(thread->name) - 1) + 1;

	if (bytes < needed)
		return ERANGE;
	memcpy(name, thread->name, needed - 1);
	name[needed - 1] = '\0';
	return 0;
}

TEK_EXPORT int tek_uthread_set_priority(tek_uthread_t thread, int priority)
{
	if (!is_priority(priority))
		return EINVAL;
	tek_ut__priority_set(thread, priority);
	tek_ut__enter();
	tek_ut__table_scheduled(thread);
	tek_ut__leave();
	return 0;
}

TEK_EXPORT int tek_uthread_get_priority(tek_uthread_t thread, int *priority)
{
	*priority = tek_ut__priority_of(thread);
	return 0;
}

TEK_EXPORT int tek_uthread_set_critical(int critical)
{
	struct tek_uthread *self = tek_ut__here_self();

	if (critical & ~1)
		return EINVAL;
	if (!self)
		return EPERM;
	/* It runs, so no queue has it. */
	tek_ut__critical_set(self, critical);
	tek_ut__enter();
	tek_ut__table_scheduled(self);
	tek_ut__leave();
	return 0;
}

/* ---- time and preemption ---- */

TEK_EXPORT void tek_uthread_sleep_until(const struct timespec *time)
{
	struct tek_waiter waiter;

	tek_ut__waiter_init(&waiter);
	tek_ut__wait(&waiter, time, TEK_WAITS_SLEEP);
}

TEK_EXPORT void tek_uthread_sleep(uint64_t ns)
{
	uint64_t now = tek__now(CLOCK_MONOTONIC);
	struct timespec time = tek__timespec_of(ns > UINT64_MAX - now ? UINT64_MAX : now + ns);

	tek_uthread_sleep_until(&time);
}

TEK_EXPORT void tek_uthread_defer_begin(void)
{
	tek_ut__enter();
}

TEK_EXPORT void tek_uthread_defer_end(void)
{
	tek_ut__leave();
}
