/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/router.h"

#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/events_set.h"
#include "uthread/hidden.h"
#include "uthread/kernel_thread.h"
#include "uthread/parallel.h"
#include "uthread/posix/action.h"
#include "uthread/posix/held.h"
#include "uthread/posix/signal.h"
#include "uthread/preempt.h"
#include "uthread/reserved.h"
#include "uthread/sched.h"
#include "uthread/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread that could not be stopped is tried again after so long, later less often. */
#define AGAIN_LEAST_MS 1
#define AGAIN_MOST_MS 64
/* Where it cannot be called, for RLIMIT_SIGPENDING, it polls this often. */
#define DEAF_MS 10

enum { FREE, FILLING, FULL };

/* Signals that were deferred. */
#define PLACES 256
static struct place {
	atomic_uint state;
	uint64_t order;
	siginfo_t info;
} places[PLACES];
static _Atomic uint64_t last_order;
static atomic_uint full; /* number of full places, or more */

static atomic_int router = 0; /* its tid; 0: it does not run */
static atomic_bool called;
static bool deaf;
static atomic_bool busy; /* it may have a signal that it has not passed on yet */

static void call_it(void)
{
	int tid = atomic_load(&router);
	/* The tick ends its wait: it is unblocked only there. */
	if (tid && !atomic_exchange(&called, true) && !tek_ut__tick_send(tid))
		atomic_store(&called, false); /* the next call */
}

bool tek_ut__router_put(const siginfo_t *info)
{
	if (!atomic_load(&router))
		return false;
	for (unsigned int i = 0; i < PLACES; i++) {
		struct place *place = &places[i];
		unsigned int state = FREE;
		if (!atomic_compare_exchange_strong(&place->state, &state, FILLING))
			continue;
		place->info = *info;
		place->order = atomic_fetch_add(&last_order, 1);
		atomic_fetch_add(&full, 1);
		atomic_store(&place->state, FULL);
		call_it();
		return true;
	}
	return false;
}

void tek_ut__router_check(void)
{
	call_it();
}

bool tek_ut__router_is_busy(void)
{
	return atomic_load(&busy);
}

/* The suitability of a thread; 0: it does not take this signal. */
static int suits(const struct tek_uthread *thread, uint64_t bit)
{
	const struct tek_posix *posix = thread->posix;

	if (!thread->id || !posix || tek_ut__posix_thread(posix) != thread ||
	    (tek_ut__posix_flags(posix) & (TEK_POSIX_EXITING | TEK_POSIX_ENDED)))
		return 0;
	if (atomic_load(&posix->awaited) & bit)
		return 4;
	if (thread->mask & bit)
		return 0;
	/* The kernel prefers the first thread, and programs rely on that. */
	if (thread == tek_ut__posix_first.thread)
		return 3;
	return __atomic_load_n(&thread->interruptible, __ATOMIC_RELAXED) ? 2 : 1;
}

/*
 * Whether the kernel chose the thread for another reason than that it runs: it was named, or has
 * caused the signal. A write(2) that raises SIGPIPE or SIGXFSZ has the same siginfo_t as kill(2) by
 * the process itself. A timer, a file or a queued signal that names a thread has the siginfo_t of
 * one that names the process. But only a bound thread has a thread id of its own to be named by.
 */
static bool is_for_one_thread(const siginfo_t *info)
{
	switch (info->si_signo) {
	case SIGPROF: /* setitimer(2): for the thread that uses the CPU */
	case SIGVTALRM:
		return info->si_code != SI_USER && info->si_code != SI_QUEUE;
	case SIGPIPE:
	case SIGXFSZ:
		return info->si_code == SI_USER && info->si_pid == getpid();
	default:
		return info->si_code == SI_TKILL ||
		       (tek_ut__here_self()->bound && info->si_code != SI_USER &&
			info->si_code != SI_KERNEL);
	}
}

static bool runs_now(const struct tek_uthread *thread)
{
	bool runs = thread->carrier != NULL;

	for (unsigned int i = 0; i < tek_ut__worker_count && !runs; i++)
		runs = tek_ut__runs_on(&tek_ut__workers[i]) == thread;
	return runs;
}

bool tek_ut__router_passes(const siginfo_t *info)
{
	const struct tek_uthread *first = tek_ut__posix_first.thread;
	/* Else the first thread may have to wait for ever until the calling one gives way. */
	const bool alternates = tek_ut__engine.preempt != TEK_PREEMPT_OFF &&
				tek_ut__engine.sched != &tek_ut__sched_fifo;

	if (!first || first == tek_ut__here_self() || is_for_one_thread(info))
		return false;
	return suits(first, tek_ut__signal_bit(info->si_signo)) && (alternates || runs_now(first));
}

static struct tek_posix *choose(int number)
{
	const uint64_t bit = tek_ut__signal_bit(number);
	struct tek_uthread *best = NULL;
	int most = 0;

	for (struct tek_uthread *each = atomic_load(&tek_ut__uthreads); each && most < 4;
	     each = each->all_next) {
		int how = suits(each, bit);
		if (how > most) {
			most = how;
			best = each;
		}
	}
	return best ? best->posix : NULL;
}

/* No thread takes it now: it stays pending on the process, as one that all threads block. */
static void send_back(siginfo_t *info)
{
	if (syscall(SYS_rt_sigqueueinfo, getpid(), info->si_signo, info) != 0)
		syscall(SYS_kill, getpid(), info->si_signo);
}

/* The oldest of the wanted ones, which the caller has claimed then; NULL: there is none. */
static struct place *claim_oldest(uint64_t wanted)
{
	for (;;) {
		struct place *found = NULL;
		unsigned int state = FULL;
		for (unsigned int i = 0; i < PLACES; i++) {
			struct place *place = &places[i];
			if (atomic_load(&place->state) == FULL &&
			    (wanted & tek_ut__signal_bit(place->info.si_signo)) &&
			    (!found || place->order < found->order))
				found = place;
		}
		if (!found || atomic_compare_exchange_strong(&found->state, &state, FILLING))
			return found;
	}
}

bool tek_ut__router_take(uint64_t wanted, siginfo_t *info)
{
	struct place *place = atomic_load(&full) ? claim_oldest(wanted) : NULL;

	if (!place)
		return false;
	*info = place->info;
	atomic_store(&place->state, FREE);
	atomic_fetch_sub(&full, 1);
	return true;
}

static void route_places(void)
{
	siginfo_t info;

	if (atomic_load(&full))
		tek_ut__come_in();
	while (tek_ut__router_take(~0ull, &info)) {
		struct tek_posix *posix = choose(info.si_signo);
		if (!posix || !tek_ut__signal_pass(posix, &info))
			send_back(&info);
	}
}

static bool takes(const struct tek_uthread *thread, uint64_t bit)
{
	return thread && !(thread->mask & bit);
}

/*
 * Whether a thread that runs, or is blocked in the kernel, does not block the signal. The kernel
 * has notified that one, and interrupts its system call, which the engine could not.
 */
static bool kernel_has_somebody(uint64_t bit)
{
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (takes(atomic_load_explicit(&tek_ut__workers[i].current, memory_order_relaxed),
			  bit))
			return true;
	}
	for (struct tek_carrier *each = atomic_load(&tek_ut__carriers); each; each = each->all) {
		if (takes(atomic_load(&each->detached), bit))
			return true;
	}
	return false;
}

/*
 * Routes signals pending on the process. Returns whether to poll again soon: a thread is about to
 * take one.
 */
static bool route_process(void)
{
	static const struct timespec at_once;
	uint64_t pending = 0;
	bool again = false;

	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	pending &= ~tek_ut__own_signals();
	while (pending) {
		const int number = __builtin_ctzll(pending) + 1;
		const uint64_t bit = tek_ut__signal_bit(number);
		struct tek_posix *posix = choose(number);
		siginfo_t info;

		pending &= ~bit;
		if (kernel_has_somebody(bit)) {
			again = true;
			continue;
		}
		if (posix && !tek_ut__parallel()) {
			tek_ut__parallel_begin();
			posix = choose(number);
		}
		/* Another thread may take it first: then there is none. */
		while (posix &&
		       syscall(SYS_rt_sigtimedwait, &bit, &info, &at_once, sizeof(bit)) == number) {
			if (!(atomic_load(&posix->awaited) & bit) && tek_ut__action_ignores(number))
				continue;
			if (!tek_ut__signal_pass(posix, &info)) {
				send_back(&info);
				break;
			}
			posix = choose(number);
		}
	}
	return again;
}

static enum tek_due due(const struct tek_uthread *thread)
{
	const struct tek_posix *posix = thread ? thread->posix : NULL;
	return posix ? tek_ut__posix_due(posix) : TEK_DUE_NOT;
}

/* Stops threads that have to act. Returns whether any has, or will have, to. */
static bool stop_those_due(void)
{
	bool any = false;

	/*
	 * Without preemption no thread is stopped in the program, but threads blocked in the kernel
	 * are.
	 */
	const unsigned int workers = tek_ut__engine.preempt == TEK_PREEMPT_OFF
					     ? 0
					     : tek_ut__worker_count;
	for (unsigned int i = 0; i < workers; i++) {
		struct tek_worker *worker = &tek_ut__workers[i];
		enum tek_due how = due(
			atomic_load_explicit(&worker->current, memory_order_relaxed));
		any = any || how != TEK_DUE_NOT;
		if (how == TEK_DUE_NOW) {
			atomic_store(&worker->kicked, false);
			tek_ut__preempt_kick(worker);
		}
	}
	for (struct tek_carrier *each = atomic_load(&tek_ut__carriers); each; each = each->all) {
		enum tek_due how = due(atomic_load(&each->detached));
		any = any || how != TEK_DUE_NOT;
		if (how == TEK_DUE_NOW)
			tek_ut__carrier_kick(each);
	}
	return any;
}

/* 0 or an error number. */
static int open_files(void)
{
	sigset_t all;

	sigfillset(&all);
	atomic_store(&tek_ut__hidden[TEK_HIDDEN_SIGNALS],
		     tek_ut__hidden_place(signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC)));
	atomic_store(&tek_ut__hidden[TEK_HIDDEN_ROUTER],
		     tek_ut__hidden_place(epoll_create1(EPOLL_CLOEXEC)));
	/*
	 * Each signal that arrives for the process is an event, also while one is pending already.
	 */
	struct epoll_event wanted = {.events = EPOLLIN | EPOLLET};
	if (epoll_ctl(tek_ut__hidden_file(TEK_HIDDEN_ROUTER), EPOLL_CTL_ADD,
		      tek_ut__hidden_file(TEK_HIDDEN_SIGNALS), &wanted))
		return errno;
	return 0;
}

/* Until there is something to do. */
static void wait_for_calls(int ms)
{
	/* Nor the C library's own, which it sends to all kernel threads, and waits for each. */
	const uint64_t blocked = ~tek_ut__own_signals();
	struct epoll_event event;

	/*
	 * The caller sets `called` first and then sends the tick, which ends the wait at any time.
	 */
	if (atomic_load(&called))
		return;
	if (deaf && (ms < 0 || ms > DEAF_MS))
		ms = DEAF_MS;
	long count = syscall(SYS_epoll_pwait, tek_ut__hidden_file(TEK_HIDDEN_ROUTER), &event, 1, ms,
			     &blocked, sizeof(blocked));
	if (count >= 0 || errno == EINTR)
		return;
	/* The program has closed descriptors that it did not know. */
	const struct timespec moment = {.tv_nsec = 1000000};
	tek_ut__hidden_forget_closed();
	if (open_files() != 0)
		syscall(SYS_nanosleep, &moment, NULL);
}

static void *route(void *argument)
{
	const uint64_t blocked = ~tek_ut__own_signals() | TEK_TICK_BIT;
	int again = -1;

	const unsigned int generation = (unsigned int)(uintptr_t)argument;

	syscall(SYS_prctl, PR_SET_NAME, "tek-signals");
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof(blocked));
	tek_ut__here_defer();
	const int tid = (int)syscall(SYS_gettid);
	deaf = !tek_ut__tick_send(tid);
	atomic_store(&router, tid);
	tek_ut__kernel_thread_has_begun();
	for (;;) {
		/* In this order: the call that stops it is not lost. */
		atomic_store(&called, false);
		if (generation != atomic_load(&tek_ut__carrier_generation))
			return NULL;
		atomic_store(&busy, true);
		route_places();
		bool taken_soon = route_process();
		atomic_store(&busy, false);
		if (stop_those_due() || taken_soon)
			again = again < 0                   ? AGAIN_LEAST_MS
				: again * 2 < AGAIN_MOST_MS ? again * 2
							    : AGAIN_MOST_MS;
		else
			again = -1;
		wait_for_calls(again);
	}
	return NULL;
}

/*
 * Without preemption: it ends the router's wait, and a thread that is blocked in the kernel acts on
 * it.
 */
static void on_call(siginfo_t *info, void *context)
{
	const int error = errno;
	struct tek_uthread *self = tek_ut__here_self();

	(void)info;
	if (self && !tek_ut__here_find()->defer && !tek_ut__here_entry())
		tek_ut__held(self, context);
	errno = error;
}

int tek_ut__router_start(void)
{
	/* Without preemption no other part has a handler for the tick. */
	int error = tek_ut__engine.preempt == TEK_PREEMPT_OFF ? tek_ut__tick_start(on_call) : 0;
	if (!error)
		error = open_files();
	/* The router's own may be closed with that. */
	tek_ut__event_set_lost = call_it;
	if (!error)
		error = tek_ut__kernel_thread(
			route, (void *)(uintptr_t)atomic_load(&tek_ut__carrier_generation));
	if (!error)
		tek_ut__idle_mask = ~tek_ut__own_signals();
	return error;
}

pid_t tek_ut__router_stop(void)
{
	tek_ut__kernel_threads_await_ids();
	const pid_t tid = atomic_load(&router);

	atomic_store(&called, false);
	call_it();
	atomic_store(&router, 0);
	return tid;
}

int tek_ut__router_start_again(void)
{
	atomic_store(&called, false);
	tek_ut__hidden_close(TEK_HIDDEN_ROUTER);
	tek_ut__hidden_close(TEK_HIDDEN_SIGNALS);
	return tek_ut__router_start();
}

void tek_ut__router_after_fork(void)
{
	atomic_store(&router, 0);
	atomic_store(&called, false);
	atomic_store(&busy, false);
	for (unsigned int i = 0; i < PLACES; i++)
		atomic_store(&places[i].state, FREE);
	atomic_store(&full, 0);
	/* Also closes the epoll and signal descriptors inherited from the parent. */
	tek_ut__hidden_close(TEK_HIDDEN_ROUTER);
	tek_ut__hidden_close(TEK_HIDDEN_SIGNALS);
}
