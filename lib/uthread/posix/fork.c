/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork(): the child has one thread, the one that called it, and a copy of the process's memory at
 * that moment. So no data in it may be half changed. The calling thread is in the engine meanwhile,
 * and no other thread is under the guard of an object (guard.h). The child resets the engine's own
 * locks.
 *
 * These handlers run first in the child and in the parent, and last before the fork. Handlers of
 * other libraries take locks, and need the guards for that.
 */
#include "uthread/engine.h"
#include "uthread/guard.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/record.h"
#include "uthread/posix/router.h"
#include "uthread/posix/signal.h"
#include "uthread/posix/start.h"
#include "uthread/reserved.h"
#include "uthread/table.h"
#include "uthread/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The engine runs, and its actions after a fork are possible. */
static atomic_bool started;

static void before(void)
{
	const uint64_t all = ~tek_ut__own_signals();

	if (!atomic_load(&started))
		return;
	tek_ut__guards_enter_and_close();
	/* A signal now could be put into a place that the child resets. */
	if (tek_ut__here_self())
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
}

static void after(void)
{
	if (tek_ut__here_self())
		tek_ut__signal_mask_take(tek_ut__here_self());
	tek_ut__leave();
}

static void in_parent(void)
{
	if (!atomic_load(&started))
		return;
	tek_ut__guards_open();
	after();
}

static void in_child(void)
{
	if (!atomic_load(&started))
		return;
	tek_ut__start_after_fork();
	tek_ut__table_after_fork();
	tek_ut__router_after_fork();
	tek_ut__posix_records_after_fork();
	tek_ut__engine_after_fork();
	if (tek_ut__here_self()) { /* else the engine has no thread here */
		tek_ut__signals_after_fork();
		atomic_store(&tek_ut__posix_threads, 1);
	}
	after();
	if (tek_ut__here_self())
		tek_ut__router_start();
}

void tek_ut__fork_register(void)
{
	static atomic_bool registered;

	if (!atomic_exchange(&registered, true))
		pthread_atfork(before, in_parent, in_child);
}

void tek_ut__fork_start(void)
{
	tek_ut__fork_register();
	atomic_store(&started, true);
}
