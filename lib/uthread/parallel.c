/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/parallel.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/events.h"
#include "uthread/guard.h"
#include "uthread/preempt.h"
#include "uthread/worker.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A tick that found the carrier where it must not grant is followed by another one, each time after
 * twice as long: a tick that costs more than the time between them leaves the carrier no CPU time.
 */
#define ASK_AGAIN_NS 200000
#define LONGEST_ASK_AGAIN_NS 50000000

atomic_uint tek_ut__parallel_asked; /* a futex for the asking threads */

/* More kernel threads may come: then these ask, once there is a carrier to be asked. */
static bool more_may_come;
static atomic_bool can_begin;

/* The C library's flag, from 2.32 on. */
static bool is_alone(void)
{
	extern char __libc_single_threaded __attribute__((weak));
	return &__libc_single_threaded && __libc_single_threaded;
}

void tek_ut__parallel_start(bool now, bool later)
{
	/* Without ticks nothing interrupts the carrier. */
	const bool can = tek_ut__engine.preempt == TEK_PREEMPT_DEFER && is_alone();

	atomic_store(&tek_ut__parallel_asked, 0);
	atomic_store(&can_begin, false);
	more_may_come = later && can && !now;
	atomic_store(&tek_ut__parallel_now, now || (later && !can));
}

void tek_ut__parallel_started(void)
{
	atomic_store(&can_begin, more_may_come);
}

void tek_ut__parallel_grant(void)
{
	tek_ut__plain_no_more();
	atomic_store(&tek_ut__parallel_now, true);
	atomic_store(&tek_ut__parallel_asked, 0);
	syscall(SYS_futex, &tek_ut__parallel_asked, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool is_granted(void)
{
	return atomic_load(&tek_ut__parallel_now) || !atomic_load(&can_begin);
}

/*
 * The carrier polls: in the handler of the tick, when it leaves the engine, or when its wait ends.
 */
static void ask(void)
{
	struct tek_carrier *carrier = atomic_load(&tek_ut__workers[0].carrier);

	atomic_store(&tek_ut__parallel_asked, 1);
	/*
	 * A child that a kernel thread has forked has no carrier: then the asking thread is alone.
	 */
	if (!carrier || syscall(SYS_tgkill, getpid(), carrier->tid, 0) != 0) {
		tek_ut__parallel_grant();
		return;
	}
	tek_ut__carrier_kick(carrier); /* too many are queued already: it is asked again */
	tek_ut__events_stop_waiting();
}

void tek_ut__parallel_begin(void)
{
	const int error = errno;

	for (uint64_t ns = ASK_AGAIN_NS; !is_granted(); ns *= ns < LONGEST_ASK_AGAIN_NS ? 2 : 1) {
		const struct timespec moment = tek__timespec_of(ns);
		ask();
		if (!is_granted())
			syscall(SYS_futex, &tek_ut__parallel_asked, FUTEX_WAIT_PRIVATE, 1, &moment,
				NULL, 0);
	}
	errno = error;
}

void tek_ut__parallel_after_fork(void)
{
	atomic_store(&tek_ut__parallel_asked, 0);
}

#if TEK_RESTARTABLE

extern const struct tek_restartable __start_tek_restartable[] __attribute__((visibility("hidden")));
extern const struct tek_restartable __stop_tek_restartable[] __attribute__((visibility("hidden")));

void tek_ut__restart_sequence(ucontext_t *context)
{
	greg_t *at = &context->uc_mcontext.gregs[REG_RIP];

	if (tek_ut__parallel())
		return; /* the rest of the sequence is right in both modes */
	for (const struct tek_restartable *sequence = __start_tek_restartable;
	     sequence < __stop_tek_restartable; sequence++) {
		const uintptr_t begin = (uintptr_t)&sequence->begin + (uintptr_t)sequence->begin;
		if ((uintptr_t)*at - begin <= sequence->bytes) {
			*at = (greg_t)begin;
			return;
		}
	}
}

#else

void tek_ut__restart_sequence(ucontext_t *context)
{
	(void)context;
}

#endif
