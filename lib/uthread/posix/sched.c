/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/sched.h"

#include "base/next.h"
#include "uthread/affinity.h"
#include "uthread/carrier.h"
#include "uthread/critical.h"
#include "uthread/engine.h"
#include "uthread/inherit.h"
#include "uthread/posix/signal.h"
#include "uthread/posix/state.h"
#include "uthread/table.h"
#include "uthread/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tek/tek.h>
#include <unistd.h>

int tek_ut__sched_least(int policy)
{
	return policy == SCHED_TEK ? TEK_PRIORITY_MIN : TEK_REAL(sched_get_priority_min)(policy);
}

int tek_ut__sched_most(int policy)
{
	return policy == SCHED_TEK ? TEK_PRIORITY_MAX : TEK_REAL(sched_get_priority_max)(policy);
}

int tek_ut__sched_rank(int policy, int priority)
{
	return policy == SCHED_TEK ? TEK_PRIORITY_MAX - priority : priority;
}

/* Whether the kernel, or the engine, has such a policy. */
static bool is_policy(int policy)
{
	return policy == SCHED_TEK || tek_ut__sched_least(policy) >= 0;
}

int tek_ut__sched_check(int policy, int priority)
{
	return is_policy(policy) && priority >= tek_ut__sched_least(policy) &&
			       priority <= tek_ut__sched_most(policy)
		       ? 0
		       : EINVAL;
}

/* Gives the engine the thread's scheduling: its policy and priority, and its critical sections. */
static void apply(struct tek_posix *posix, struct tek_uthread *thread)
{
	const int policy = atomic_load(&posix->policy);
	const int entered = posix->entered ? tek_ut__sched_rank(SCHED_TEK, 0) : INT_MIN;
	const int own = tek_ut__sched_rank(policy, atomic_load(&posix->priority));
	/* Ranks of other policies must not be compared with those of critical threads. */
	const int rank = entered > own || (posix->entered && policy != SCHED_TEK) ? entered : own;
	const bool critical = policy == SCHED_TEK || posix->entered;
	const bool lower = rank < thread->sched.priority || (thread->sched.critical && !critical);

	/* A word of its own, which is read when the thread is queued next. */
	tek_ut__critical_set(thread, critical);
	tek_ut__priority_set(thread, rank);
	tek_ut__enter();
	tek_ut__table_scheduled(thread);
	tek_ut__leave();
	if (lower && thread == tek_ut__here_self()) {
		tek_ut__enter();
		tek_ut__yield(TEK_READY_YIELDED);
		tek_ut__leave();
	}
}

int tek_ut__sched_set(struct tek_posix *posix, int policy, int priority)
{
	struct tek_uthread *thread = tek_ut__posix_thread(posix);
	int error = tek_ut__sched_check(policy, priority);

	if (error)
		return error;
	if (!thread)
		return ESRCH;
	atomic_store(&posix->policy, policy);
	atomic_store(&posix->priority, priority);
	apply(posix, thread);
	return 0;
}

int tek_ut__sched_critical_enter(void)
{
	struct tek_posix *self = tek_ut__posix_self();

	if (self->entered == USHRT_MAX)
		return EOVERFLOW;
	if (self->entered++ == 0)
		apply(self, tek_ut__posix_thread(self));
	return 0;
}

int tek_ut__sched_critical_leave(void)
{
	struct tek_posix *self = tek_ut__posix_self();

	if (!self->entered)
		return EINVAL;
	if (--self->entered == 0)
		apply(self, tek_ut__posix_thread(self));
	return 0;
}

size_t tek_ut__sched_default_stack(void)
{
	return tek_ut__engine.stack_bytes;
}

/* The process's CPUs, in as many bytes. */
static int process_cpus(size_t bytes, cpu_set_t *cpus)
{
	memset(cpus, 0, bytes);
	if (syscall(SYS_sched_getaffinity, getpid(), bytes, cpus) < 0)
		return errno;
	tek_ut__affinity_report(getpid(), bytes, cpus);
	return 0;
}

static bool share_any(const cpu_set_t *one, const cpu_set_t *other, size_t bytes)
{
	const unsigned char *a = (const unsigned char *)one, *b = (const unsigned char *)other;

	for (size_t i = 0; i < bytes; i++) {
		if (a[i] & b[i])
			return true;
	}
	return false;
}

int tek_ut__sched_set_cpus(struct tek_posix *posix, size_t bytes, const cpu_set_t *cpus)
{
	cpu_set_t all;
	const size_t known = bytes < sizeof(all) ? bytes : sizeof(all);

	if (process_cpus(sizeof(all), &all) == 0 && !share_any(&all, cpus, known))
		return EINVAL;
	cpu_set_t *copy = malloc(bytes);
	if (!copy)
		return ENOMEM;
	memcpy(copy, cpus, bytes);
	tek_ut__enter();
	tek_ut__spin_lock(&posix->lock);
	cpu_set_t *old = posix->cpus;
	posix->cpus = copy;
	posix->cpus_bytes = bytes;
	tek_ut__spin_unlock(&posix->lock);
	tek_ut__leave();
	free(old);
	return 0;
}

int tek_ut__sched_get_cpus(struct tek_posix *posix, size_t bytes, cpu_set_t *cpus)
{
	bool known;

	tek_ut__enter();
	tek_ut__spin_lock(&posix->lock);
	known = posix->cpus != NULL;
	if (known) {
		memset(cpus, 0, bytes);
		memcpy(cpus, posix->cpus, bytes < posix->cpus_bytes ? bytes : posix->cpus_bytes);
	}
	tek_ut__spin_unlock(&posix->lock);
	tek_ut__leave();
	return known ? 0 : process_cpus(bytes, cpus);
}

/* clock_getcpuclockid(3): the CPU clock of a kernel thread. */
static clockid_t clock_of(pid_t tid)
{
	enum { SCHEDULED = 2, OF_THREAD = 4 };

	return (clockid_t)(~(unsigned int)tid << 3 | OF_THREAD | SCHEDULED);
}

int tek_ut__sched_get_clock(const struct tek_posix *posix, clockid_t *clock)
{
	struct tek_state_call call = {
		.number = SYS_clock_gettime,
		.argument = {(unsigned long)CLOCK_THREAD_CPUTIME_ID},
	};
	struct tek_uthread *thread = tek_ut__posix_thread(posix);

	if (thread && thread == tek_ut__here_self()) {
		if (!tek_ut__state_begin(&call))
			return errno;
		tek_ut__state_end(&call);
	}
	tek_ut__enter();
	const bool is_own = thread && thread->bound;
	*clock = is_own ? clock_of(thread->carrier->tid) : CLOCK_PROCESS_CPUTIME_ID;
	tek_ut__leave();
	return 0;
}

void tek_ut__sched_adopt(struct tek_posix *first)
{
	struct sched_param param = {0};
	int policy = sched_getscheduler(0);

	if (policy < 0 || sched_getparam(0, &param) != 0)
		policy = SCHED_OTHER;
	atomic_store(&first->policy, policy & ~SCHED_RESET_ON_FORK);
	atomic_store(&first->priority, param.sched_priority);
}
