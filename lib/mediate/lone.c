/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/lone.h"

#include "base/clock.h"
#include "threads/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
	SIGNAL = 33, /* glibc's SIGSETXID */
	RETRY_NS = 1000000,
	NO_TIMER = -1,
};

/* The kernel's structures; sigaction(3) rejects this signal. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask[sizeof(uint64_t) / sizeof(unsigned long)];
};
struct kernel_times {
	struct {
		long seconds, nanoseconds;
	} interval, value;
};

static struct kernel_action before; /* the C library's; its handler is NULL while ours is not set */
static void (*on_expiry)(void);
static int cpu_timer = NO_TIMER, time_timer = NO_TIMER;

static void set(int timer, int flags, uint64_t ns)
{
	const struct kernel_times times = {
		.value = {(long)(ns / TEK_NS_PER_SEC), (long)(ns % TEK_NS_PER_SEC)},
	};

	if (timer != NO_TIMER)
		syscall(SYS_timer_settime, timer, flags, &times, NULL);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const int saved = errno;

	if (info->si_code != SI_TIMER || info->si_value.sival_ptr != &before) {
		if (before.handler)
			before.handler(number, info, context);
		return;
	}
	if (tek__lock()) {
		on_expiry();
		tek__unlock();
	} else if (!tek__process_stands_down()) {
		set(cpu_timer, 0, RETRY_NS); /* the signal interrupted TEK */
	}
	errno = saved;
}

/* The C library's handler stays behind ours, and tells how handlers return. */
static bool set_handler(void)
{
	struct kernel_action ours;

	if (syscall(SYS_rt_sigaction, SIGNAL, NULL, &before, sizeof(before.mask)) ||
	    !(before.flags & SA_SIGINFO)) {
		before.handler = NULL;
		return false;
	}
	ours = before;
	ours.handler = on_signal;
	ours.flags |= SA_RESTART | SA_ONSTACK;
	return syscall(SYS_rt_sigaction, SIGNAL, &ours, NULL, sizeof(ours.mask)) == 0;
}

static bool is_blocked(void)
{
	uint64_t mask = 0;

	return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask)) ||
	       mask >> (SIGNAL - 1) & 1;
}

static int new_timer(clockid_t clock)
{
	struct sigevent event;
	int timer;

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGNAL;
	event.sigev_value.sival_ptr = &before;
	event.sigev_notify_thread_id = tek__gettid();
	/* Not timer_create(3): its timers are not the kernel's numbers. */
	return syscall(SYS_timer_create, clock, &event, &timer) ? NO_TIMER : timer;
}

bool tek__lone_start(void (*expired)(void))
{
	const int saved = errno;

	on_expiry = expired;
	bool started = !is_blocked() && set_handler();
	if (started) {
		cpu_timer = new_timer(CLOCK_THREAD_CPUTIME_ID);
		time_timer = new_timer(CLOCK_MONOTONIC);
		started = cpu_timer != NO_TIMER && time_timer != NO_TIMER;
		if (!started)
			tek__lone_end();
	}
	errno = saved;
	return started;
}

void tek__lone_after_cpu(uint64_t cpu_ns)
{
	set(cpu_timer, 0, cpu_ns);
}

void tek__lone_at(uint64_t ns)
{
	set(time_timer, TIMER_ABSTIME, ns == UINT64_MAX ? 0 : ns);
}

static void end_timer(int *timer)
{
	/* In the child of a fork no timer has this number. */
	if (*timer != NO_TIMER)
		syscall(SYS_timer_delete, *timer);
	*timer = NO_TIMER;
}

void tek__lone_end(void)
{
	const int saved = errno;

	end_timer(&cpu_timer);
	end_timer(&time_timer);
	if (before.handler)
		syscall(SYS_rt_sigaction, SIGNAL, &before, NULL, sizeof(before.mask));
	before.handler = NULL;
	errno = saved;
}
