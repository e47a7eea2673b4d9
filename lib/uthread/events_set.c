/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/events_set.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/hidden.h"
#include "uthread/tick.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441 /* the same everywhere, since Linux 5.11 */
#endif

/* The event of the eventfd: no descriptor. */
#define STOP UINT64_MAX
/* The size that the kernel reads as the mask of signals. */
#define MASK_BYTES 8

static atomic_bool no_pwait2;
static atomic_bool renewed;
static _Atomic(struct tek_carrier *) waiter; /* it waits in the set; NULL: none, or no carrier */
void (*tek_ut__event_set_lost)(void);

static int set(void)
{
	return tek_ut__hidden_file(TEK_HIDDEN_EPOLL);
}

static int stop(void)
{
	return tek_ut__hidden_file(TEK_HIDDEN_STOP);
}

/*
 * System calls by number: the C library's functions would resolve to the preload object. Never
 * inlined, so that errno is that of the kernel thread that made the call.
 */
__attribute__((noinline)) static int call(long number, long a, long b, long c, long d, long e,
					  long f)
{
	int before = errno;
	long result = syscall(number, a, b, c, d, e, f);
	if (result >= 0)
		return (int)result;
	result = -errno;
	errno = before;
	return (int)result;
}

int tek_ut__event_set_start(void)
{
	tek_ut__hidden_start();
	int epoll = tek_ut__hidden_place(epoll_create1(EPOLL_CLOEXEC));
	if (epoll < 0)
		return epoll;
	atomic_store(&tek_ut__hidden[TEK_HIDDEN_EPOLL], epoll);
	int event = tek_ut__hidden_place(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (event >= 0)
		atomic_store(&tek_ut__hidden[TEK_HIDDEN_STOP], event);
	struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = STOP};
	int result = event < 0 ? event
			       : call(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, event, (long)&wanted, 0,
				      0);
	if (result < 0) {
		tek_ut__hidden_close(TEK_HIDDEN_STOP);
		tek_ut__hidden_close(TEK_HIDDEN_EPOLL);
	}
	return result;
}

void tek_ut__event_set_after_fork(void)
{
	/* The old set is the parent's: a change to it would reach the parent. */
	tek_ut__hidden_close(TEK_HIDDEN_EPOLL);
	tek_ut__hidden_close(TEK_HIDDEN_STOP);
	atomic_store(&waiter, NULL);
	atomic_store(&renewed, false);
	tek_ut__event_set_start();
}

static bool is_open(int file)
{
	return file >= 0 && call(SYS_fcntl, file, F_GETFD, 0, 0, 0, 0) >= 0;
}

/*
 * The kernel still has the old set for the worker that waits in it, where no event stops it any
 * more: a tick does. A worker that is only about to wait finds the new set, and the stop in it.
 */
static void end_old_wait(void)
{
	struct tek_carrier *carrier = atomic_load(&waiter);

	tek_ut__event_set_stop_waiting();
	if (carrier && tek_ut__tick_handler())
		tek_ut__carrier_kick(carrier);
}

/* The program has closed the set by a system call of its own: there is a new one. */
static bool start_again(void)
{
	static atomic_flag is_starting = ATOMIC_FLAG_INIT;
	bool started = true;

	/* Descriptors that the child of vfork(2) closes stay open here. */
	if ((is_open(set()) && is_open(stop())) || tek_ut__hidden_borrowed())
		return false;
	if (atomic_flag_test_and_set(&is_starting))
		return true; /* by another worker: the caller tries again */
	if (!is_open(set()) || !is_open(stop())) {
		/* The engine's numbers, too, may be the program's by now. */
		tek_ut__hidden_forget_closed();
		started = tek_ut__event_set_start() == 0;
		if (started) {
			atomic_store(&renewed, true);
			end_old_wait();
		}
	}
	atomic_flag_clear(&is_starting);
	if (started && tek_ut__event_set_lost)
		tek_ut__event_set_lost();
	return started;
}

bool tek_ut__event_set_renewed(void)
{
	return atomic_load_explicit(&renewed, memory_order_relaxed) &&
	       atomic_exchange(&renewed, false);
}

int tek_ut__event_set_arm(int file, uint32_t events, bool registered)
{
	struct epoll_event wanted = {.events = events | EPOLLONESHOT, .data.u64 = (uint64_t)file};
	int operation = registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	/*
	 * The right operation depends on the descriptor's current file, which may change in
	 * between.
	 */
	for (int tries = 0;; tries++) {
		int result = call(SYS_epoll_ctl, set(), operation, file, (long)&wanted, 0, 0);
		if (result == -EBADF && tries < 4 && start_again())
			continue;
		if (tries == 4 || (result != -ENOENT && result != -EEXIST))
			return result;
		operation = result == -ENOENT ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
	}
}

void tek_ut__event_set_remove(int file)
{
	struct epoll_event none = {.events = 0};
	call(SYS_epoll_ctl, set(), EPOLL_CTL_DEL, file, (long)&none, 0, 0);
}

/* Without a set, in a child without permission for descriptors: times still pass. */
static int wait_without(uint64_t ns)
{
	const long time[2] = {0, (long)(ns < 1000000 ? ns : 1000000)};
	call(SYS_ppoll, 0, 0, (long)time, 0, MASK_BYTES, 0);
	return 0;
}

static int wait_for(struct epoll_event *events, int most, uint64_t ns)
{
	/* The kernel's struct, in 32-bit programs, too. */
	const struct {
		int64_t seconds, ns;
	} time = {(int64_t)(ns / TEK_NS_PER_SEC), (int64_t)(ns % TEK_NS_PER_SEC)};
	int result = -ENOSYS;

	if (!atomic_load_explicit(&no_pwait2, memory_order_relaxed)) {
		result = call(SYS_epoll_pwait2, set(), (long)events, most,
			      ns == UINT64_MAX ? 0 : (long)&time, 0, MASK_BYTES);
		if (result == -ENOSYS || result == -EPERM) /* an old kernel, or such a container */
			atomic_store_explicit(&no_pwait2, true, memory_order_relaxed);
		else
			return result;
	}
	uint64_t ms = ns / 1000000 + (ns % 1000000 != 0);
	int limit = ns == UINT64_MAX ? -1 : ms > INT_MAX ? INT_MAX : (int)ms;
	return call(SYS_epoll_pwait, set(), (long)events, most, limit, 0, MASK_BYTES);
}

int tek_ut__event_set_wait(struct epoll_event *events, int most, uint64_t ns)
{
	int files = 0;

	if (ns > 0)
		atomic_store(&waiter, tek_ut__here_carrier());
	int count = set() < 0 ? wait_without(ns) : wait_for(events, most, ns);
	if (ns > 0)
		atomic_store(&waiter, NULL);
	if (count == -EBADF || set() < 0)
		start_again();
	for (int i = 0; i < count; i++) {
		uint64_t stops;
		if (events[i].data.u64 != STOP)
			events[files++] = events[i];
		else if (ns > 0) /* a poll without wait leaves it to the waiting worker */
			call(SYS_read, stop(), (long)&stops, sizeof(stops), 0, 0, 0);
	}
	return files;
}

void tek_ut__event_set_stop_waiting(void)
{
	static const uint64_t one = 1;
	if (call(SYS_write, stop(), (long)&one, sizeof(one), 0, 0, 0) == -EBADF)
		start_again();
}

int tek_ut__event_set_poll(struct pollfd *files, nfds_t count)
{
	const long time[2] = {0, 0};
	return call(SYS_ppoll, (long)files, (long)count, (long)time, 0, MASK_BYTES, 0);
}
