/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/start.h"

#include "base/definition.h"
#include "base/next.h"
#include "threads/table.h"
#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/posix/action.h"
#include "uthread/posix/attr.h"
#include "uthread/posix/fit.h"
#include "uthread/posix/frame.h"
#include "uthread/posix/held.h"
#include "uthread/posix/objects.h"
#include "uthread/posix/record.h"
#include "uthread/posix/roles.h"
#include "uthread/posix/router.h"
#include "uthread/posix/sched.h"
#include "uthread/posix/signal.h"
#include "uthread/preempt.h"
#include "uthread/reserved.h"
#include "uthread/setxid.h"
#include "uthread/spinlock.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t process;

bool tek_ut__start_is_borrowed(void)
{
	return process && getpid() != process;
}

void tek_ut__start_after_fork(void)
{
	process = getpid();
}

/*
 * The stack size of this program's threads without the engine, RLIMIT_STACK as a rule. Only
 * addresses.
 */
static size_t usual_stack_bytes(void)
{
	pthread_attr_t attr;
	size_t bytes = 0;

	if (pthread_attr_init(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &bytes);
		pthread_attr_destroy(&attr);
	}
	return bytes;
}

static struct tek_engine_options options_of(const char *text)
{
	struct tek_engine_options options = tek_ut__engine_defaults();
	const size_t usual = usual_stack_bytes();

	if (usual)
		options.stack_bytes = usual;
	if (text)
		tek_ut__engine_parse(&options, text, tek_ut__engine_complain);
	options.foreign = true;
	options.own_tls = tek_ut__tls_available();
	if (!options.own_tls && options.preempt != TEK_PREEMPT_OFF) {
		tek_ut__engine_complain(
			"", 0,
			"threads share thread-local storage with this C library: no preemption");
		options.preempt = TEK_PREEMPT_OFF;
	}
	return options;
}

static pthread_t c_library_handle(void)
{
	pthread_t (*self)(void);
	void *found = tek__next_definition("pthread_self");
	memcpy(&self, &found, sizeof(self));
	return self();
}

/* The calling thread is the first one from now on, and has a record. */
static int adopt(pthread_t handle)
{
	struct tek_uthread *thread = tek_ut__here_self();

	tek_ut__enter();
	struct tek_posix *posix = tek_ut__posix_new();
	if (posix) {
		tek_ut__posix_first.thread = thread;
		tek_ut__posix_first.handle = handle;
		tek_ut__sched_adopt(posix);
		posix->begun = true;
		thread->mask &= ~tek_ut__own_signals();
		tek_ut__posix_give(posix, thread);
	}
	tek_ut__leave();
	if (posix)
		return 0;
	tek_ut__carrier_disown();
	return ENOMEM;
}

/*
 * Objects that assume kernel threads, and that define some of our symbols: then their functions are
 * used and the engine does not start.
 */
static bool stands_down(void)
{
	static const struct {
		const char *symbol, *why;
	} conflicts[] = {
		{"__asan_init", "a program with AddressSanitizer keeps threads of the kernel"},
		{"__tsan_init", "a program with ThreadSanitizer keeps threads of the kernel"},
		{"__msan_init", "a program with MemorySanitizer keeps threads of the kernel"},
		{"tek_epoch_", /* a variable that it alone has */
		 "a program with libtek.so keeps threads of the kernel"},
	};

	for (size_t i = 0; i < sizeof(conflicts) / sizeof(conflicts[0]); i++) {
		struct tek_definition ignored;
		if (tek__defining_file(conflicts[i].symbol, &ignored)) {
			tek_ut__engine_complain("", 0, conflicts[i].why);
			return true;
		}
	}
	return false;
}

/*
 * Objects of the program lie in memory that the C library's headers describe, and static
 * initialisers write some of it. If the layout differs from this library's the engine's objects
 * cannot work, and the C library's cannot any more either.
 */
static void check_objects(void)
{
	const struct tek_objects *objects = tek_ut__objects();
	const bool known = objects->mutexes && objects->rwlocks && objects->once &&
			   objects->spinlock_free == TEK_SPINLOCK_FREE &&
			   objects->spinlock_locked == TEK_SPINLOCK_HELD;

	if (!known) {
		tek_ut__engine_complain(
			"", 0,
			"this C library's mutexes are not as any that TEK knows: the "
			"program does not start; run it without user-level threads");
		_exit(1);
	}
	if (!objects->cond_shared.bit || !objects->rwlock_shared.bit ||
	    !objects->barrier_shared.bit || !objects->semaphore_shared.bit)
		tek_ut__engine_complain(
			"", 0,
			"objects of several processes are not as any that TEK knows: "
			"the program cannot make all of them (ENOTSUP)");
}

void tek_ut__posix_start(void)
{
	check_objects();
	if (tek_ut__engine_runs() || stands_down())
		return;
	process = getpid();
	tek__table_remove_stale();
	const struct tek_engine_options options = options_of(getenv("TEK_UTHREAD"));
	const pthread_t handle = c_library_handle();

	tek_ut__attr_start();
	tek_ut__posix_fit_start();
	tek_ut__roles_start();
	int error = tek_ut__engine_start(&options);
	if (!error)
		error = adopt(handle);
	if (error) {
		tek_ut__engine_complain("", 0, strerror(error));
		return;
	}
	tek_ut__preempt_resumed = tek_ut__posix_resume;
	tek_ut__preempt_held = tek_ut__held;
	tek_ut__setxid_start();
	tek_ut__action_start();
	error = tek_ut__router_start();
	if (error)
		tek_ut__engine_complain("", 0, "signals that no thread waits for may come late");
	tek_ut__held_start();
	tek_ut__frame_start();
	tek_ut__fork_start();
}

__attribute__((constructor)) static void start(void)
{
	tek_ut__posix_start();
}
