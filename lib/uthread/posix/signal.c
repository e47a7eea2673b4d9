/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/signal.h"

#include "uthread/carrier.h"
#include "uthread/interrupted.h"
#include "uthread/posix/cancel.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/held.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/router.h"
#include "uthread/preempt.h"
#include "uthread/wait.h"
#include "uthread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tek_pending_signal {
	struct tek_pending_signal *next;
	bool of_process; /* sent to the process, and this thread was chosen for it */
	siginfo_t info;
};

/* Pending signals, of all threads. Not by malloc(3), since they also arrive in signal handlers. */
#define MOST 1024
#define AT_ONCE 64 /* mapped together */
static struct {
	struct tek_spin lock;
	struct tek_pending_signal *of[MOST / AT_ONCE];
	unsigned int used;
	struct tek_pending_signal *free;
} nodes;

/* NULL: they are used up, or there is no memory. Under the lock. */
static struct tek_pending_signal *unused_node(void)
{
	if (nodes.used == MOST)
		return NULL;
	struct tek_pending_signal **some = &nodes.of[nodes.used / AT_ONCE];
	if (!*some) {
		void *memory = mmap(NULL, AT_ONCE * sizeof(**some), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return NULL;
		*some = memory;
	}
	return *some + nodes.used++ % AT_ONCE;
}

static struct tek_pending_signal *new_node(void)
{
	tek_ut__spin_lock(&nodes.lock);
	struct tek_pending_signal *node = nodes.free;
	if (node)
		nodes.free = node->next;
	else
		node = unused_node();
	tek_ut__spin_unlock(&nodes.lock);
	return node;
}

static void free_node(struct tek_pending_signal *node)
{
	tek_ut__spin_lock(&nodes.lock);
	node->next = nodes.free;
	nodes.free = node;
	tek_ut__spin_unlock(&nodes.lock);
}

/* Under its lock. */
static void append(struct tek_posix *posix, struct tek_pending_signal *node)
{
	node->next = NULL;
	if (posix->first)
		posix->last->next = node;
	else
		posix->first = node;
	posix->last = node;
	atomic_fetch_or(&posix->pending, tek_ut__signal_bit(node->info.si_signo));
	atomic_fetch_or(&posix->flags, TEK_POSIX_SIGNALLED);
}

/*
 * The first of the least number, as POSIX has it for real-time signals; NULL: none of `wanted`.
 * Under its lock.
 */
static struct tek_pending_signal *take_node(struct tek_posix *posix, uint64_t wanted)
{
	wanted &= atomic_load_explicit(&posix->pending, memory_order_relaxed);
	if (!wanted)
		return NULL;
	const int number = __builtin_ctzll(wanted) + 1;
	struct tek_pending_signal *found = NULL, *before = NULL, *previous = NULL;
	bool more = false;
	for (struct tek_pending_signal *each = posix->first; each; each = each->next) {
		if (each->info.si_signo == number) {
			more = found != NULL;
			if (more)
				break;
			found = each;
			before = previous;
		}
		previous = each;
	}
	if (!found)
		return NULL;
	if (before)
		before->next = found->next;
	else
		posix->first = found->next;
	if (posix->last == found)
		posix->last = before;
	if (!more)
		atomic_fetch_and(&posix->pending, ~tek_ut__signal_bit(number));
	if (!posix->first)
		atomic_fetch_and(&posix->flags, ~(unsigned int)TEK_POSIX_SIGNALLED);
	return found;
}

static int add(struct tek_posix *posix, const siginfo_t *info, bool of_process)
{
	const uint64_t bit = tek_ut__signal_bit(info->si_signo);
	struct tek_pending_signal *node = new_node();
	int error = 0;

	if (!node)
		return EAGAIN;
	node->info = *info;
	node->of_process = of_process;
	tek_ut__spin_lock(&posix->lock);
	if (tek_ut__posix_flags(posix) & TEK_POSIX_ENDED)
		error = ESRCH;
	else if (info->si_signo < SIGRTMIN && (atomic_load(&posix->pending) & bit))
		; /* once is enough */
	else {
		append(posix, node);
		node = NULL;
	}
	tek_ut__spin_unlock(&posix->lock);
	if (node)
		free_node(node);
	return error;
}

siginfo_t tek_ut__signal_info(int number, const union sigval *value)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = number;
	info.si_code = value ? SI_QUEUE : SI_TKILL;
	info.si_pid = getpid();
	info.si_uid = getuid();
	if (value)
		info.si_value = *value;
	return info;
}

int tek_ut__signal_send(struct tek_posix *posix, const siginfo_t *info)
{
	tek_ut__enter();
	int error = add(posix, info, false);
	struct tek_uthread *thread = tek_ut__posix_thread(posix);
	tek_ut__leave();
	if (error || !thread)
		return error;
	const uint64_t bit = tek_ut__signal_bit(info->si_signo);
	if (thread == tek_ut__here_self())
		tek_ut__posix_resume(thread, false);
	else if (!(thread->mask & bit) || (atomic_load(&posix->awaited) & bit))
		tek_ut__posix_attention(posix);
	return 0;
}

bool tek_ut__signal_pass(struct tek_posix *posix, const siginfo_t *info)
{
	if (add(posix, info, true) != 0)
		return false;
	tek_ut__posix_attention(posix);
	return true;
}

bool tek_ut__signal_take(uint64_t wanted, siginfo_t *info)
{
	struct tek_posix *self = tek_ut__posix_self();

	if (!(atomic_load(&self->pending) & wanted))
		return false;
	tek_ut__enter();
	tek_ut__spin_lock(&self->lock);
	struct tek_pending_signal *node = take_node(self, wanted);
	tek_ut__spin_unlock(&self->lock);
	if (node) {
		*info = node->info;
		free_node(node);
	}
	tek_ut__leave();
	return node != NULL;
}

uint64_t tek_ut__signals_pending(void)
{
	return atomic_load(&tek_ut__posix_self()->pending);
}

/* The kernel performs the program's action for it, before this returns. */
static void deliver(struct tek_posix *self, const siginfo_t *info)
{
	tek_ut__enter();
	self->taking = true;
	/* For its own kernel thread the kernel accepts any siginfo_t: rt_tgsigqueueinfo(2). */
	syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), info->si_signo, info);
	self->taking = false;
	tek_ut__leave();
}

void tek_ut__posix_resume(struct tek_uthread *thread, bool in_program)
{
	struct tek_posix *self = thread->posix;

	if (!self || !(tek_ut__posix_flags(self) & (TEK_POSIX_SIGNALLED | TEK_POSIX_CANCELLED)))
		return;
	siginfo_t info;
	/*
	 * Programs install handlers first thing in a thread: it gets that far, until the router
	 * stops it.
	 */
	if (!self->begun)
		return;
	while ((tek_ut__posix_flags(self) & TEK_POSIX_SIGNALLED) &&
	       tek_ut__signal_take(~thread->mask, &info))
		deliver(self, &info);
	if (in_program && tek_ut__cancel_is_due_at_once(tek_ut__posix_flags(self)))
		tek_ut__posix_exit(PTHREAD_CANCELED);
}

void tek_ut__signals_take_last(void)
{
	struct tek_posix *self = tek_ut__posix_self();
	siginfo_t info;

	while (tek_ut__router_take(~tek_ut__posix_thread(self)->mask, &info))
		deliver(self, &info);
	/* The router may be about to pass one to this thread. */
	while (tek_ut__router_is_busy())
		syscall(SYS_sched_yield);
	while (tek_ut__signal_take(~tek_ut__posix_thread(self)->mask, &info))
		deliver(self, &info);
}

enum tek_due tek_ut__posix_due(const struct tek_posix *posix)
{
	const struct tek_uthread *thread = tek_ut__posix_thread(posix);
	const unsigned int flags = tek_ut__posix_flags(posix);

	if (!thread)
		return TEK_DUE_NOT;
	if ((atomic_load(&posix->pending) & ~thread->mask) || tek_ut__cancel_is_due_at_once(flags))
		return TEK_DUE_NOW;
	if (!tek_ut__cancel_is_due_for(flags))
		return TEK_DUE_NOT;
	return tek_ut__held_may_end(thread) ? TEK_DUE_NOW : TEK_DUE_LATER;
}

void tek_ut__posix_attention(struct tek_posix *posix)
{
	struct tek_uthread *thread = tek_ut__posix_thread(posix);

	if (!thread)
		return;
	tek_ut__enter();
	tek_ut__interrupt(thread);
	/* If it is in the engine, or enters it, it polls when it leaves. */
	if (thread->here)
		__atomic_fetch_or(&thread->here->pending, TEK_PENDING_CHECK, __ATOMIC_RELAXED);
	bool runs = thread->stopped;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++) {
		if (tek_ut__runs_on(&tek_ut__workers[i]) == thread) {
			runs = true;
			tek_ut__preempt_kick(&tek_ut__workers[i]);
		}
	}
	tek_ut__leave();
	/* If that happens at a bad moment it is tried again. */
	if (runs && tek_ut__posix_due(posix) != TEK_DUE_NOT)
		tek_ut__router_check();
}

unsigned int tek_ut__signals_end(struct tek_posix *self)
{
	struct tek_pending_signal *node, *next;

	tek_ut__spin_lock(&self->lock);
	unsigned int flags = atomic_fetch_or(&self->flags, TEK_POSIX_ENDED);
	node = self->first;
	self->first = self->last = NULL;
	atomic_store(&self->pending, 0);
	tek_ut__spin_unlock(&self->lock);
	for (; node; node = next) {
		next = node->next;
		if (node->of_process)
			tek_ut__router_put(&node->info);
		free_node(node);
	}
	return flags;
}

/* For an interrupted wait: interrupt.h. */
void tek_ut__interrupted(void)
{
	struct tek_posix *self = tek_ut__posix_self();

	if (!self)
		return;
	tek_ut__posix_resume(tek_ut__posix_thread(self), false);
	tek_ut__cancel_point();
}

void tek_ut__interrupted_by_signal(void)
{
	struct tek_posix *self = tek_ut__posix_self();

	/*
	 * The caller holds nothing: a thread with asynchronous cancellation can be cancelled here.
	 */
	if (self)
		tek_ut__posix_resume(tek_ut__posix_thread(self), true);
}

unsigned long tek_ut__handlers_run(void)
{
	const struct tek_posix *self = tek_ut__posix_self();
	return self ? self->handlers : 0;
}

unsigned long tek_ut__failing_handlers_run(void)
{
	const struct tek_posix *self = tek_ut__posix_self();
	return self ? self->failing : 0;
}

void tek_ut__signals_after_fork(void)
{
	struct tek_posix *self = tek_ut__posix_self();

	atomic_store(&nodes.lock.held, 0);
	/* Signals pending for the parent are not the child's: fork(2). */
	nodes.used = 0;
	nodes.free = NULL;
	if (!self)
		return;
	atomic_store(&self->lock.held, 0);
	self->first = self->last = NULL;
	atomic_store(&self->pending, 0);
	atomic_fetch_and(&self->flags, ~(unsigned int)TEK_POSIX_SIGNALLED);
}
