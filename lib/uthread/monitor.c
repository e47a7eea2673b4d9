/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/monitor.h"

#include "base/clock.h"
#include "base/procfs.h"
#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/kernel_thread.h"
#include "uthread/parallel.h"
#include "uthread/sections.h"
#include "uthread/setxid.h"
#include "uthread/spares.h"
#include "uthread/supplier.h"
#include "uthread/trace.h"
#include "uthread/worker.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* While a thread runs without a worker, or a worker has no carrier. */
#define CHECK_AGAIN_NS 2000000

static atomic_uint called;
static atomic_bool runs;
static atomic_int monitor;                 /* its tid; 0: it does not run */
static bool can_take;                      /* membarrier(2) works */
static atomic_bool taken[TEK_WORKERS_MAX]; /* workers without a carrier */

bool tek_ut__monitor_runs(void)
{
	return atomic_load(&runs);
}

void tek_ut__monitor_wake(void)
{
	if (!atomic_exchange(&called, 1))
		syscall(SYS_futex, &called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void tek_ut__monitor_find_carrier(struct tek_worker *worker)
{
	atomic_store(&taken[worker->number], true);
	tek_ut__monitor_wake();
}

/* Its kernel thread sleeps: proc(5), /proc/PID/task/TID/stat, the letter behind the name. */
static bool is_held_up(const struct tek_carrier *carrier)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)carrier->tid);
	int file = -1;
	if (tek__procfs_exists(carrier->tid))
		file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	long bytes = syscall(SYS_read, file, text, sizeof(text) - 1);
	syscall(SYS_close, file);
	if (bytes <= 0)
		return false;
	text[bytes] = '\0';
	/* A name may contain anything, and ends at the last bracket. */
	const char *end = strrchr(text, ')');
	return end && (end[2] == 'S' || end[2] == 'D');
}

/* Returns whether the worker has a carrier now. */
static bool find_carrier(struct tek_worker *worker)
{
	struct tek_carrier *spare = tek_ut__carrier_spare();
	struct tek_uthread *stopped = spare ? NULL : tek_ut__next_stopped(worker, NULL);

	if (spare)
		tek_ut__carrier_give_worker(spare, worker);
	else if (stopped)
		tek_ut__carrier_resume(worker, stopped);
	return spare || stopped;
}

/* From a carrier that is blocked in the kernel while threads are ready. Returns whether. */
static bool take(struct tek_worker *worker)
{
	const struct tek_carrier *carrier = atomic_load(&worker->carrier);

	if (!can_take || !carrier || !tek_ut__any_ready(worker))
		return false;
	if (!tek_ut__parallel()) {
		if (!is_held_up(carrier))
			return false;
		tek_ut__parallel_begin();
	}
	return tek_ut__carrier_take_worker(worker, is_held_up);
}

/* Returns whether it has no carrier. */
static bool check(struct tek_worker *worker)
{
	atomic_bool *is_taken = &taken[worker->number];

	/* As soon as it has a carrier, another thread may write that. */
	if (!atomic_exchange(is_taken, false) && !take(worker))
		return false;
	if (find_carrier(worker))
		return false;
	atomic_store(is_taken, true);
	return true;
}

/* Whether any thread runs without a worker; such threads are reminded. */
static bool remind(void)
{
	bool any = false;
	for (struct tek_carrier *each = atomic_load(&tek_ut__carriers); each; each = each->all) {
		if (!atomic_load(&each->detached) || atomic_load(&each->aside))
			continue;
		any = true;
		if (!is_held_up(each))
			tek_ut__carrier_kick(each);
	}
	return any;
}

/* Longer where a tick takes long: the threads that are reminded would do nothing else. */
static struct timespec time_to_next(void)
{
	uint64_t ns = CHECK_AGAIN_NS;

	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		const uint64_t least = atomic_load_explicit(&tek_ut__workers[i].least_interval,
							    memory_order_relaxed);
		ns = ns > least ? ns : least;
	}
	return tek__timespec_of(ns);
}

static void *watch(void *argument)
{
	bool soon = false;

	const unsigned int generation = (unsigned int)(uintptr_t)argument;

	syscall(SYS_prctl, PR_SET_NAME, "tek-monitor");
	tek_ut__here_find()->defer = 1;
	atomic_store(&monitor, (pid_t)syscall(SYS_gettid));
	tek_ut__kernel_thread_has_begun();
	while (generation == atomic_load(&tek_ut__carrier_generation)) {
		const struct timespec again = time_to_next();
		if (!atomic_load(&called))
			syscall(SYS_futex, &called, FUTEX_WAIT_PRIVATE, 0, soon ? &again : NULL,
				NULL, 0);
		atomic_store(&called, 0);
		tek_ut__sections_update();
		tek_ut__trace_supply();
		soon = false;
		for (unsigned int i = 0; i < tek_ut__worker_count; i++)
			soon |= check(&tek_ut__workers[i]);
		soon |= remind();
		tek_ut__supplier_check();
	}
	return NULL;
}

static int start(void)
{
	const unsigned int generation = atomic_load(&tek_ut__carrier_generation);

	return tek_ut__kernel_thread(watch, (void *)(uintptr_t)generation);
}

pid_t tek_ut__monitor_stop(void)
{
	tek_ut__kernel_threads_await_ids();
	const pid_t tid = atomic_exchange(&monitor, 0);

	tek_ut__monitor_wake();
	return tid;
}

int tek_ut__monitor_start_again(void)
{
	const int error = tek_ut__supplier_start_again();

	return error ? error : start();
}

int tek_ut__monitor_start(void)
{
	for (unsigned int i = 0; i < TEK_WORKERS_MAX; i++)
		atomic_store(&taken[i], false);
	can_take = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
	int error = tek_ut__supplier_start();
	if (!error)
		error = start();
	if (error)
		return error;
	atomic_store(&runs, true);
	tek_ut__setxid_start(); /* the C library has installed its handler now */
	return 0;
}
