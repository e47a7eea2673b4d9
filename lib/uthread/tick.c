/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tick.h"

#include "base/registers.h"
#include "uthread/carrier.h"
#include "uthread/kernel_thread.h"
#include "uthread/overflow.h"
#include "uthread/reserved.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than that is not one frame. */
#define MOST_FRAME_BYTES ((size_t)64 << 10)

/* The kernel's struct; sigaction(3) rejects this signal. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask[sizeof(uint64_t) / sizeof(unsigned long)];
};

static struct kernel_action ours;
static tek_tick_handler *_Atomic handle;
static atomic_size_t frame_bytes;
static void (*behind)(int, siginfo_t *, void *); /* the C library's handler; NULL: none */

union sigval tek_ut__tick_value(void)
{
	return (union sigval){.sival_ptr = &ours};
}

/* An address that no other value has. */
static union sigval probe_value(void)
{
	return (union sigval){.sival_ptr = &ours.flags};
}

static bool has_value(const siginfo_t *info, union sigval value)
{
	return info->si_value.sival_ptr == value.sival_ptr;
}

bool tek_ut__tick_is_probe(const siginfo_t *info)
{
	return info->si_code == SI_QUEUE && has_value(info, probe_value());
}

static void measure_frame(const ucontext_t *context)
{
	const size_t bytes = (uintptr_t)context->uc_mcontext.TEK_STACK_POINTER -
			     (uintptr_t)__builtin_frame_address(0);

	/* Not on an alternate stack. */
	if (bytes < MOST_FRAME_BYTES)
		atomic_store_explicit(&frame_bytes, bytes, memory_order_relaxed);
}

size_t tek_ut__tick_frame_bytes(void)
{
	return atomic_load_explicit(&frame_bytes, memory_order_relaxed);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const bool carries = info->si_code == SI_TIMER || info->si_code == SI_QUEUE;

	if (carries && (has_value(info, tek_ut__tick_value()) || tek_ut__tick_is_probe(info))) {
		tek_tick_handler *handler = atomic_load_explicit(&handle, memory_order_acquire);
		struct tek_carrier *carrier = tek_ut__here_carrier();
		if (!tek_ut__tick_frame_bytes())
			measure_frame(context);
		/* The next one may be sent. */
		if (carrier && info->si_code == SI_QUEUE && !tek_ut__tick_is_probe(info))
			atomic_store(&carrier->kicked, false);
		handler(info, context);
		tek_ut__overflow_keep_stack(carrier, context);
	} else if (behind) {
		behind(number, info, context);
	}
}

tek_tick_handler *tek_ut__tick_handler(void)
{
	return atomic_load(&handle);
}

void tek_ut__tick_set_handler(tek_tick_handler *handler)
{
	atomic_store(&handle, handler);
}

static int get(int number, struct kernel_action *action)
{
	return syscall(SYS_rt_sigaction, number, NULL, action, sizeof(action->mask)) ? errno : 0;
}

static int set(int number, const struct kernel_action *action)
{
	return syscall(SYS_rt_sigaction, number, action, NULL, sizeof(action->mask)) ? errno : 0;
}

static bool send_value(pid_t tid, union sigval value)
{
	const int error = errno;
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = TEK_TICK_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_value = value;
	bool sent = syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, TEK_TICK_SIGNAL, &info) == 0 ||
		    errno != EAGAIN;
	errno = error;
	return sent;
}

bool tek_ut__tick_send(pid_t tid)
{
	return send_value(tid, tek_ut__tick_value());
}

bool tek_ut__tick_send_probe(pid_t tid)
{
	return send_value(tid, probe_value());
}

void tek_ut__tick_unblock(void)
{
	const uint64_t bit = TEK_TICK_BIT;

	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &bit, NULL, sizeof(bit));
}

void tek_ut__tick_ignore(void)
{
	struct kernel_action ignore = ours;

	if (!ours.handler)
		return;
	ignore.handler = (void (*)(int, siginfo_t *, void *))(void *)SIG_IGN;
	set(TEK_TICK_SIGNAL, &ignore);
}

void tek_ut__tick_heed(void)
{
	if (ours.handler)
		set(TEK_TICK_SIGNAL, &ours);
}

#if defined(TEK_FIBERS_TSAN)

int tek_ut__tick_start(tek_tick_handler *handler)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};

	atomic_store(&handle, handler);
	if (sigaction(TEK_TICK_SIGNAL, &action, NULL))
		return errno;
	return get(TEK_TICK_SIGNAL, &ours);
}

#else

/* Calls the C library's function behind ours; nothing where there is no such function. */
static int real(const char *name, int (*with)(void *function))
{
	void *function = dlsym(RTLD_NEXT, name);
	return function ? with(function) : ENOSYS;
}

static atomic_bool cancelled;

static int cancel_self(void *function)
{
	int (*cancel)(pthread_t);
	pthread_t (*self)(void);
	void *found = dlsym(RTLD_NEXT, "pthread_self");

	memcpy(&cancel, &function, sizeof(cancel));
	memcpy(&self, &found, sizeof(self));
	return cancel(self());
}

static int disable(void *function)
{
	int (*set_state)(int, int *);
	int old;

	memcpy(&set_state, &function, sizeof(set_state));
	return set_state(PTHREAD_CANCEL_DISABLE, &old);
}

static void *be_cancelled(void *argument)
{
	tek_ut__kernel_thread_has_begun();
	if (real("pthread_setcancelstate", disable) == 0)
		real("pthread_cancel", cancel_self);
	atomic_store(&cancelled, true);
	return argument;
}

/*
 * The C library installs its handler at the first pthread_cancel(3), and then never again: that has
 * to be before ours. So a thread is cancelled that ignores it.
 */
static int have_the_librarys(void)
{
	int error = tek_ut__kernel_thread(be_cancelled, NULL);

	while (!error && !atomic_load(&cancelled))
		syscall(SYS_sched_yield);
	return error;
}

static void nothing(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
}

/*
 * The C library determines how handlers return. So the restorer is read from a handler of the same
 * kind that the C library has installed.
 */
static int find_restorer(void)
{
	const struct sigaction probe = {.sa_sigaction = nothing, .sa_flags = SA_SIGINFO};
	struct kernel_action before, installed;
	int (*function)(int, const struct sigaction *, struct sigaction *);
	void *found = dlsym(RTLD_NEXT, "sigaction");
	int error = get(SIGSTKFLT, &before);

	memcpy(&function, &found, sizeof(function));
	if (error)
		return error;
	if (function(SIGSTKFLT, &probe, NULL))
		return errno;
	error = get(SIGSTKFLT, &installed);
	set(SIGSTKFLT, &before);
	ours.flags = installed.flags;
	ours.restorer = installed.restorer;
	return error;
}

int tek_ut__tick_start(tek_tick_handler *handler)
{
	struct kernel_action before;
	int error = tek_ut__reserved_signals() & TEK_TICK_BIT ? find_restorer() : ENOTSUP;

	if (!error)
		error = have_the_librarys();
	if (!error)
		error = get(TEK_TICK_SIGNAL, &before);
	if (error)
		return error;
	if (before.flags & SA_SIGINFO)
		behind = before.handler;
	atomic_store(&handle, handler);
	ours.handler = on_signal;
	ours.flags |= SA_SIGINFO | SA_RESTART;
	return set(TEK_TICK_SIGNAL, &ours);
}

#endif
