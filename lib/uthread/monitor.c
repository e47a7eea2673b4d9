/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/monitor.h"

#include "uthread/carrier.h"
#include "uthread/clock.h"
#include "uthread/engine.h"
#include "uthread/parallel.h"
#include "uthread/preempt.h"
#include "uthread/setxid.h"
#include "uthread/trace.h"
#include "uthread/worker.h"
#include "uthread/zones.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is kept ready, so that a tick never waits for a new kernel thread. */
#define SPARES 1
/* While a thread runs without a worker. */
#define LOOK_AGAIN_NS 2000000

static atomic_uint called;
static bool can_take; /* membarrier(2) works */

void tek__monitor_wake(void)
{
	if (!atomic_exchange(&called, 1))
		syscall(SYS_futex, &called, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Its kernel thread sleeps: proc(5), /proc/PID/task/TID/stat, the letter behind the name. */
static bool is_held_up(const struct tek_carrier *carrier)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)carrier->tid);
	int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
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

static void make_spares(void)
{
	/* They are in the engine as soon as they are there. */
	if (!tek__parallel())
		return;
	while (tek__carrier_spares() < SPARES && tek__carrier_start(NULL) == 0) {
		/* It adds itself. */
		struct timespec moment = {.tv_nsec = 100000};
		for (int i = 0; i < 100 && tek__carrier_spares() < SPARES; i++)
			syscall(SYS_nanosleep, &moment, NULL);
	}
}

static void look_at(struct tek_worker *worker)
{
	const struct tek_carrier *carrier = atomic_load(&worker->carrier);

	if (!can_take || !carrier || !tek__any_ready(worker))
		return;
	if (!tek__parallel()) {
		if (!is_held_up(carrier))
			return;
		tek__parallel_begin();
		make_spares();
	}
	struct tek_carrier *spare = tek__carrier_spare();
	if (spare && !tek__carrier_take_worker(worker, spare, is_held_up))
		tek__carrier_put_back(spare);
}

/* Whether any thread runs without a worker; those that do are reminded. */
static bool remind(void)
{
	bool any = false;
	for (struct tek_carrier *each = atomic_load(&tek__carriers); each; each = each->all) {
		if (!atomic_load(&each->detached))
			continue;
		any = true;
		if (!is_held_up(each))
			syscall(SYS_tgkill, getpid(), each->tid, TEK_TICK_SIGNAL);
	}
	return any;
}

static void *watch(void *argument)
{
	const struct timespec again = tek__timespec_of(LOOK_AGAIN_NS);
	bool soon = false;

	(void)argument;
	tek__here_find()->defer = 1;
	for (;;) {
		make_spares();
		if (!atomic_load(&called))
			syscall(SYS_futex, &called, FUTEX_WAIT_PRIVATE, 0, soon ? &again : NULL,
				NULL, 0);
		atomic_store(&called, 0);
		tek__zones_update();
		tek__trace_supply();
		for (unsigned int i = 0; i < tek__worker_count; i++)
			look_at(&tek__workers[i]);
		soon = remind();
	}
	return NULL;
}

int tek__monitor_start(void)
{
	can_take = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
	int error = tek__kernel_thread(watch, NULL);
	if (!error)
		tek__setxid_start(); /* the C library has installed its handler now */
	return error;
}
