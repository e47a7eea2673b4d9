/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fork(): the child has one thread, the one that called it, and the memory of the process as it was at that moment.  So
 * nothing of it may be half done: the calling thread is in the engine meanwhile, nobody else is under the guard of
 * an object (guard.h), and the engine's own locks are made new in the child.
 *
 * The functions here are the first of their kind in the child and in the parent, and the last before the fork, whoever
 * registers others: those take locks, and need the guards for it.
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

/* The engine runs, and what it does after a fork can be done. */
static atomic_bool started;

static void before(void)
{
	const uint64_t all = ~tek__own_signals();

	if (!atomic_load(&started))
		return;
	tek__guards_enter_and_close();
	/* A signal now could be put into a place that the child makes new. */
	if (tek__here_self())
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
}

static void after(void)
{
	if (tek__here_self())
		tek__signal_mask_take(tek__here_self());
	tek__leave();
}

static void in_parent(void)
{
	if (!atomic_load(&started))
		return;
	tek__guards_open();
	after();
}

static void in_child(void)
{
	if (!atomic_load(&started))
		return;
	tek__start_after_fork();
	tek__table_after_fork();
	tek__router_after_fork();
	tek__posix_records_after_fork();
	tek__engine_after_fork();
	if (tek__here_self()) { /* else the engine has no thread here */
		tek__signals_after_fork();
		atomic_store(&tek__posix_threads, 1);
	}
	after();
	if (tek__here_self())
		tek__router_start();
}

void tek__fork_register(void)
{
	static atomic_bool registered;

	if (!atomic_exchange(&registered, true))
		pthread_atfork(before, in_parent, in_child);
}

void tek__fork_start(void)
{
	tek__fork_register();
	atomic_store(&started, true);
}
