/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Contexts and thread-local storage without the engine: a test switches to a thread by hand, which
 * runs until it stops or ends.
 *
 * What such a thread finds wrong it notes in variables of its own, and the test looks afterwards:
 * cmocka's own state is thread-local.
 */
#ifndef TESTS_UTHREAD_RAW_H
#define TESTS_UTHREAD_RAW_H

#include "support.h"

#include "arch/context.h"
#include "uthread/tls.h"
#include "uthread/tls_glibc.h"

#include <string.h>
#include <sys/mman.h>

enum { RAW_STACK_BYTES = 256 << 10 };

struct raw {
	struct tek_uthread thread;
	struct tek_context caller;
	uintptr_t caller_tls;
	void (*routine)(void *);
	void *argument;
	bool ended;
};

/* Back to the test. */
static inline void raw_stop(struct raw *raw)
{
	if (raw->thread.own_tls)
		tek_ut__tls_switch(raw->caller_tls);
	tek__context_switch(&raw->thread.context, &raw->caller);
}

static const struct tek_context *raw_begin(void *argument)
{
	struct raw *raw = argument;

	if (raw->thread.own_tls)
		tek_ut__tls_begin_current();
	raw->routine(raw->argument);
	if (raw->thread.own_tls)
		tek_ut__tls_end_current();
	raw->ended = true;
	if (raw->thread.own_tls)
		tek_ut__tls_switch(raw->caller_tls);
	return &raw->caller;
}

static inline void raw_make(struct raw *raw, void (*routine)(void *), void *argument)
{
	void *stack = mmap(NULL, RAW_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(raw, 0, sizeof(*raw));
	assert_true(stack != MAP_FAILED);
	raw->thread.stack_low = stack;
	raw->thread.stack_bytes = RAW_STACK_BYTES;
	raw->routine = routine;
	raw->argument = argument;
	tek__context_make(&raw->thread.context, (char *)stack + RAW_STACK_BYTES, raw_begin, raw);
}

static inline void raw_make_with_tls(struct raw *raw, void (*routine)(void *), void *argument)
{
	raw_make(raw, routine, argument);
	assert_int_equal(tek_ut__tls_give(&raw->thread), 0);
}

/* Until it stops or ends. By any kernel thread. */
static inline void raw_go_on(struct raw *raw)
{
	raw->caller_tls = tek_ut__tls_pointer();
	if (raw->thread.own_tls)
		tek_ut__tls_switch(raw->thread.tls);
	tek__context_switch(&raw->caller, &raw->thread.context);
}

static inline void raw_drop(struct raw *raw)
{
	assert_true(raw->ended);
	if (raw->thread.own_tls)
		tek_ut__tls_take(&raw->thread);
	munmap(raw->thread.stack_low, RAW_STACK_BYTES);
}

/* All of its life. */
static inline void raw_run_with_tls(void (*routine)(void *), void *argument)
{
	struct raw raw;

	raw_make_with_tls(&raw, routine, argument);
	raw_go_on(&raw);
	raw_drop(&raw);
}

#endif
