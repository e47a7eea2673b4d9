/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/state_effect.h"

#include "base/user_memory.h"
#include "uthread/carrier.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/state.h"

#include <errno.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The same on all processors. */
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#ifndef SYS_lsm_set_self_attr
#define SYS_lsm_set_self_attr 460
#endif

#define IOPRIO_WHO_PROCESS 1

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#if defined(__x86_64__)
#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003
#define ARCH_GET_GS 0x1004
#define ARCH_GET_CPUID 0x1011
#define ARCH_GET_XCOMP_SUPP 0x1021
#define ARCH_REQ_XCOMP_GUEST_PERM 0x1025
#define ARCH_MAP_VDSO_X32 0x2001
#define ARCH_MAP_VDSO_64 0x2003
#define ARCH_GET_UNTAG_MASK 0x4001
#define ARCH_FORCE_TAGGED_SVA 0x4004
#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_STATUS 0x5005
#endif

/* The calling thread is the only one of the process. */
bool tek_ut__state_is_alone(void)
{
	return atomic_load(&tek_ut__posix_threads) == 1;
}

bool tek_ut__state_is_own_tid(pid_t tid)
{
	if (tid == 0 || tid == (pid_t)syscall(SYS_gettid))
		return true;
	if (tid != getpid())
		return false;
	/* The first thread has the id of the process, wherever it runs. */
	const struct tek_carrier *each = atomic_load(&tek_ut__carriers);
	while (each && !each->main)
		each = each->all;
	return each && each->main == tek_ut__here_self();
}

struct tek_effect tek_ut__effect_on_thread(unsigned long *argument, unsigned int number)
{
	const pid_t tid = (pid_t)argument[number];

	if (tek_ut__state_is_own_tid(tid)) {
		argument[number] = 0;
		return tek_ut__changes;
	}
	for (const struct tek_carrier *each = atomic_load(&tek_ut__carriers); each;
	     each = each->all) {
		if (each->tid == tid && !each->dedicated)
			return TEK_REFUSED(EPERM, "a change of another thread by its thread id",
					   "several user-level threads have that id");
	}
	return tek_ut__ordinary;
}

struct tek_effect tek_ut__effect_of_strict_mode(void)
{
	return TEK_REFUSED(EPERM, "seccomp(2) in strict mode",
			   "user-level threads need further system calls");
}

static struct tek_effect of_first(unsigned long *argument)
{
	return tek_ut__effect_on_thread(argument, 0);
}

static struct tek_effect of_counter(unsigned long *argument)
{
	const struct tek_effect effect = tek_ut__effect_on_thread(argument, 1);
	return effect.binds ? tek_ut__binds : effect;
}

static struct tek_effect priority(unsigned long *argument)
{
	return argument[0] == PRIO_PROCESS ? tek_ut__effect_on_thread(argument, 1)
					   : tek_ut__ordinary;
}

static struct tek_effect io_priority(unsigned long *argument)
{
	return argument[0] == IOPRIO_WHO_PROCESS ? tek_ut__effect_on_thread(argument, 1)
						 : tek_ut__ordinary;
}

/* Whether the CPUs are those that it has already: nothing changes. */
static bool has_cpus(size_t bytes, const void *cpus)
{
	unsigned char now[1024], wanted[1024];

	memset(now, 0, sizeof(now));
	return bytes && bytes <= sizeof(now) && tek__user_copy(wanted, cpus, bytes) &&
	       syscall(SYS_sched_getaffinity, 0, sizeof(now), now) > 0 &&
	       memcmp(now, wanted, bytes) == 0;
}

static struct tek_effect affinity(unsigned long *argument)
{
	const struct tek_effect effect = tek_ut__effect_on_thread(argument, 0);

	if (effect.binds && argument[2] && has_cpus(argument[1], (const void *)argument[2]))
		return tek_ut__ordinary;
	return effect;
}

/* The call changes nothing if the id is the one that it has already, as in a query with -1. */
static struct tek_effect file_user(unsigned long *argument)
{
	return (uid_t)syscall(SYS_setfsuid, -1) == (uid_t)argument[0] || (uid_t)argument[0] == ~0u
		       ? tek_ut__ordinary
		       : tek_ut__changes;
}

static struct tek_effect file_group(unsigned long *argument)
{
	return (gid_t)syscall(SYS_setfsgid, -1) == (gid_t)argument[0] || (gid_t)argument[0] == ~0u
		       ? tek_ut__ordinary
		       : tek_ut__changes;
}

static struct tek_effect persona(unsigned long *argument)
{
	return (unsigned int)argument[0] == ~0u ? tek_ut__ordinary : tek_ut__changes;
}

static struct tek_effect always(unsigned long *argument)
{
	(void)argument;
	return tek_ut__binds;
}

/* A process with one thread does that as a rule just before it executes another program. */
static struct tek_effect tracing(unsigned long *argument)
{
	return argument[0] == PTRACE_TRACEME && tek_ut__state_is_alone() ? tek_ut__ordinary
									 : tek_ut__binds;
}

/* Calls that set a value through a pointer, and only read with NULL. */
static struct tek_effect with_pointer(unsigned long *argument)
{
	return argument[0] ? tek_ut__binds : tek_ut__ordinary;
}

/* The engine waits for files by their numbers, which would be ambiguous then. */
static struct tek_effect own_files(void)
{
	if (tek_ut__state_is_alone())
		return tek_ut__changes;
	return TEK_REFUSED(EPERM, "a table of files of one thread",
			   "the engine waits for the files of all threads");
}

static struct tek_effect unshared(unsigned long *argument)
{
	return argument[0] & CLONE_FILES ? own_files() : tek_ut__changes;
}

static struct tek_effect closed(unsigned long *argument)
{
	return argument[2] & CLOSE_RANGE_UNSHARE ? own_files() : tek_ut__ordinary;
}

static struct tek_effect filter(unsigned long *argument)
{
	if (argument[0] == SECCOMP_SET_MODE_STRICT)
		return tek_ut__effect_of_strict_mode();
	/* With this flag all kernel threads get the filter. */
	return argument[0] == SECCOMP_SET_MODE_FILTER && !(argument[1] & SECCOMP_FILTER_FLAG_TSYNC)
		       ? tek_ut__changes
		       : tek_ut__ordinary;
}

static struct tek_effect clock_of_thread(unsigned long *argument)
{
	return (clockid_t)argument[0] == CLOCK_THREAD_CPUTIME_ID ? tek_ut__reads : tek_ut__ordinary;
}

static struct tek_effect usage(unsigned long *argument)
{
	return (int)argument[0] == RUSAGE_THREAD ? tek_ut__reads : tek_ut__ordinary;
}

/* The kernel identifies the owner of such a futex by its thread id. */
static struct tek_effect inheriting(unsigned long *argument)
{
	switch (argument[1] & FUTEX_CMD_MASK) {
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_TRYLOCK_PI:
	case FUTEX_UNLOCK_PI:
	case FUTEX_WAIT_REQUEUE_PI:
		return tek_ut__binds;
	default:
		return tek_ut__ordinary;
	}
}

static struct tek_effect sequence(unsigned long *argument)
{
	(void)argument;
	return TEK_REFUSED(ENOSYS, "rseq(2)", "a user-level thread changes its CPU unseen");
}

static struct tek_effect robust(unsigned long *argument)
{
	(void)argument;
	return TEK_REFUSED(ENOSYS, "set_robust_list(2)", "that list is the C library's");
}

#if defined(__x86_64__)
static struct tek_effect processor(unsigned long *argument)
{
	switch (argument[0]) {
	case ARCH_SET_FS:
		return TEK_REFUSED(EPERM, "arch_prctl(ARCH_SET_FS)",
				   "the engine switches that register");
	case ARCH_SHSTK_ENABLE:
		return TEK_REFUSED(EOPNOTSUPP, "a shadow stack", "user-level threads have none");
	case ARCH_GET_FS:
	case ARCH_GET_GS:
	case ARCH_GET_CPUID:
	case ARCH_GET_XCOMP_SUPP ... ARCH_REQ_XCOMP_GUEST_PERM:
	case ARCH_MAP_VDSO_X32 ... ARCH_MAP_VDSO_64:
	case ARCH_GET_UNTAG_MASK ... ARCH_FORCE_TAGGED_SVA:
	case ARCH_SHSTK_STATUS:
		return tek_ut__ordinary;
	default:
		return tek_ut__changes;
	}
}
#endif

/* NULL: it changes state that new threads inherit, for all arguments. */
static const struct rule {
	long number;
	struct tek_effect (*judge)(unsigned long *argument);
} rules[] = {
	/* credentials */
	{SYS_setuid, NULL},
	{SYS_setgid, NULL},
	{SYS_setreuid, NULL},
	{SYS_setregid, NULL},
	{SYS_setresuid, NULL},
	{SYS_setresgid, NULL},
	{SYS_setgroups, NULL},
	{SYS_setfsuid, file_user},
	{SYS_setfsgid, file_group},
	{SYS_capset, NULL},
	{SYS_prctl, tek_ut__effect_of_prctl},
	{SYS_keyctl, NULL},
	{SYS_add_key, NULL},
	{SYS_request_key, NULL},
	{SYS_landlock_restrict_self, NULL},
	{SYS_lsm_set_self_attr, NULL},
	{SYS_seccomp, filter},
	/* directories, namespaces, files */
	{SYS_unshare, unshared},
	{SYS_setns, NULL},
	{SYS_close_range, closed},
	/* scheduling */
	{SYS_sched_setscheduler, of_first},
	{SYS_sched_setparam, of_first},
	{SYS_sched_setattr, of_first},
	{SYS_sched_setaffinity, affinity},
	{SYS_setpriority, priority},
	{SYS_ioprio_set, io_priority},
	/* memory */
	{SYS_set_mempolicy, NULL},
	{SYS_pkey_alloc, NULL},
	/* clocks and counters */
	{SYS_clock_gettime, clock_of_thread},
	{SYS_timer_create, clock_of_thread},
	{SYS_getrusage, usage},
	{SYS_perf_event_open, of_counter},
	/* the kernel's identification of a thread */
	{SYS_sigaltstack, with_pointer},
	{SYS_set_tid_address, always},
	{SYS_set_robust_list, robust},
	{SYS_rseq, sequence},
	{SYS_personality, persona},
	{SYS_futex, inheriting},
	{SYS_ptrace, tracing},
	{SYS_io_uring_setup, always},
	{SYS_io_uring_enter, always},
	{SYS_io_uring_register, always},
#if defined(__x86_64__)
	{SYS_arch_prctl, processor},
	{SYS_set_thread_area, NULL},
	{SYS_ioperm, NULL},
	{SYS_iopl, NULL},
#endif
};

static const struct rule *rule_of(long number)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (rules[i].number == number)
			return &rules[i];
	}
	return NULL;
}

bool tek_ut__state_concerns(long number)
{
	return rule_of(number) != NULL;
}

struct tek_effect tek_ut__effect_of(struct tek_state_call *call)
{
	const struct rule *rule = rule_of(call->number);

	if (!rule)
		return tek_ut__ordinary;
	return rule->judge ? rule->judge(call->argument) : tek_ut__changes;
}
