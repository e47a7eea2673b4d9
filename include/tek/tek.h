/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tek/tek.h - time-critical threads for ordinary pthread programs.
 *
 * Life of a time-critical thread
 * ------------------------------
 * A thread is born in the normal mode and competes with every other thread of
 * the device.  It enters the Fast Region when it, or another thread of its
 * process, asks for the policy SCHED_TEK, when it calls tek_critical_enter() or
 * tek_critical_for(), when it is marked and a thread of its group asks
 * (follow-marked), or when a rule of `tek run --critical` names it.  There it
 * runs before every thread of the fair scheduling classes.  It leaves when the
 * last of these reasons is gone, when it ends, or when the guard sends it back
 * because it used up its budget (default: 800 ms of CPU time in 1 s); it may ask
 * again later, and a rule takes it back by itself.  On leaving
 * it has the policy, nice value and reset-on-fork flag that it had before, or
 * that were set for it meanwhile.
 *
 * What it starts, threads and processes alike, is not Fast and begins with the
 * policy and nice value that it had before it became Fast.
 *
 * How to get it: link with -ltek, or preload libtek.so (`tek run` does), or
 * define TEK_OPTIONAL before including this header and link with nothing: then
 * TEK is used where it is loaded, and where it is not every call below does
 * nothing and succeeds.
 *
 * Unless a function says otherwise it may be called from any thread at any time,
 * does not block beyond a short internal lock (with priority inheritance; where tekd makes the
 * switches, for its answer: some seconds at most), is
 * not a cancellation point, must not be called from a signal handler, nor by a thread that
 * can be cancelled at any moment (PTHREAD_CANCEL_ASYNCHRONOUS).
 * Functions return 0 or an error number, as pthread functions do; errno is left
 * alone.
 */
#ifndef TEK_TEK_H
#define TEK_TEK_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The scheduling policy of time-critical threads (tek-2020, IV-A).  Its priority
 * (sched_param.sched_priority) is a nice value, TEK_PRIORITY_MIN to
 * TEK_PRIORITY_MAX: a lower one gives a higher real-time priority.  By default
 * 19 becomes real-time priority 10, 0 becomes 29 and -20 becomes 49, which stays
 * below the kernel's interrupt threads (50).
 *
 * These calls take it:
 *   pthread_setschedparam, pthread_getschedparam, pthread_setschedprio,
 *   pthread_attr_setschedpolicy, then pthread_attr_setschedparam and
 *   pthread_attr_setinheritsched(PTHREAD_EXPLICIT_SCHED): a thread born critical,
 *   sched_setscheduler, sched_getscheduler, sched_setparam, sched_getparam (of a
 *   thread of the calling process),
 *   sched_setattr, sched_getattr (of glibc 2.41 and later, the same; the priority is
 *   sched_nice), sched_get_priority_min (-20), sched_get_priority_max (19).
 *
 * Errors of those that set it, in addition to their own:
 *   EINVAL  the priority is not in -20...19
 *   ESRCH   the thread has ended or never was
 *   EPERM   this process may not use real-time policies and tekd, if it runs, does not
 *           grant them to it; or the thread belongs to another process; one message on
 *           standard error says what to do, and what tekd says
 *   EDQUOT  the guard, or tekd, sent this thread back: for one budget window, and for twice
 *           as long after each further time, up to 64 windows
 *   EAGAIN  no resources for TEK's guard thread; or tekd grants this process or its user
 *           no more threads, or no more requests just now; or TEK does nothing here, because
 *           a signal handler interrupted it or a sanitizer is linked into the program
 *
 * A thread is made Fast by the process itself, where it may (CAP_SYS_NICE, RLIMIT_RTPRIO),
 * else the daemon tekd, which is asked by itself.  tekd keeps the budgets that its
 * configuration grants, or that of tek_set_budget() if it is smaller, and ends timed stays.  That
 * tekd took a thread back is known to the program when it next calls anything of this header or the
 * calls above.  If tekd ends, what it granted ends with it; the next request is made to the one
 * that runs then.
 */
#define SCHED_TEK 84
#define TEK_PRIORITY_MIN (-20)
#define TEK_PRIORITY_MAX 19

/* Groups of threads (cpu-mediator-2019, 3.1). A thread starts in its creator's. */
enum tek_group {
	TEK_NORMAL = 0,     /* on the screen; where the first thread starts */
	TEK_URGENT = 1,     /* on the screen and interacting with the user */
	TEK_SERVICE = 2,    /* daemons */
	TEK_BACKGROUND = 3, /* at work, invisible to the user */
};

#ifdef __cplusplus
extern "C" {
#endif

#ifdef TEK_OPTIONAL
#define TEK_API __attribute__((weak))
#else
#define TEK_API
#endif

/*
 * Take the calling thread into the Fast Region, with priority 0 unless another
 * reason gives it a better one.  Calls nest: it stays until as many
 * tek_critical_leave() calls have been made.
 * Errors: EPERM, EDQUOT, EAGAIN as for SCHED_TEK; EOVERFLOW after 65,535 nested
 * calls.  A failed call does not count.
 */
TEK_API int tek_critical_enter(void);

/*
 * Undo one tek_critical_enter() of the calling thread.
 * Errors: EINVAL if there is none to undo.
 */
TEK_API int tek_critical_leave(void);

/*
 * Take the calling thread into the Fast Region for the next `ns` nanoseconds (of
 * CLOCK_MONOTONIC, at least 1); it leaves by itself.  A second call can make the
 * stay longer, not shorter.
 * Errors: EINVAL if ns is 0; EPERM, EDQUOT, EAGAIN as for SCHED_TEK.
 */
TEK_API int tek_critical_for(uint64_t ns);

/*
 * Mark a thread time-critical (1) or not (0).  That alone changes nothing (tek-2020,
 * IV-A): it becomes Fast while any thread of the same group in the process is
 * Fast at its own request, with the priority of the best such request.
 * Errors: ESRCH if the thread has ended, EINVAL if marked is neither 0 nor 1.
 */
TEK_API int tek_thread_mark(pthread_t thread, int marked);

/*
 * Put a thread into a group: inside the process, and where tekd makes groups also on the device.
 * That tekd is not there, or refuses, is no error; a refusal is told once on standard error.
 * Errors: ESRCH if the thread has ended, EINVAL if there is no such group.
 */
TEK_API int tek_thread_set_group(pthread_t thread, enum tek_group group);

/* The group of a thread, in *group. Errors: ESRCH if the thread has ended. */
TEK_API int tek_thread_get_group(pthread_t thread, enum tek_group *group);

#define TEK_ROLE_BYTES 64 /* of a role, with its NUL */

/* What can be set of a thread: which attributes a call is about. */
#define TEK_ATTRIBUTE_ROLE 1u
#define TEK_ATTRIBUTE_CRITICAL 2u
#define TEK_ATTRIBUTE_GROUP 4u
#define TEK_ATTRIBUTE_POLICY 8u /* policy and priority, as pthread_setschedparam() */
#define TEK_ATTRIBUTES_ALL 15u

/* The attributes of a thread (tek-2020, IV-C). */
struct tek_attributes {
	char role[TEK_ROLE_BYTES]; /* what it is for: up to 63 bytes of UTF-8; "": not said */
	int critical;              /* 1: marked time-critical, as by tek_thread_mark() */
	enum tek_group group;
	int policy;   /* SCHED_*, without SCHED_RESET_ON_FORK; SCHED_TEK only if it was set, not
	                 while the thread is Fast for another reason */
	int priority; /* nice value with a fair policy or SCHED_TEK, else real-time priority */

	/* What cannot be set. */
	pid_t tid;            /* kernel thread id */
	uint64_t created_ns;  /* CLOCK_BOOTTIME of the caller when it was created or found */
	uint64_t stack_bytes; /* size of its stack; 0: not known */
	uint64_t peak_bytes;  /* of it certainly used so far; 0: not measured */
	uint64_t vm_bytes;    /* virtual memory of its process; 0: not asked for */
};

/*
 * Get the attributes of a thread of this process, as a rule without a system call: a copy
 * of one moment from the thread information table.  Policy and priority are what was
 * last set through the C library or TEK (not by another process, setpriority(2) or
 * a system call made by hand); tek_attributes_refresh() asks the kernel.
 * Errors: ESRCH if the thread has ended; EAGAIN if there is no slot for it.
 * One that left by the system call exit instead of pthread_exit() may be found until
 * TEK next looks after it.
 */
TEK_API int tek_thread_get_attributes(pthread_t thread, struct tek_attributes *attributes);

/*
 * Set those attributes of a thread of this process that `which` names
 * (TEK_ATTRIBUTE_*), all or none.
 * Errors, of which none changes anything: ESRCH if the thread has ended; EAGAIN if
 * there is no slot for it; ENAMETOOLONG if the role has no NUL within its 64 bytes;
 * EILSEQ if it is not UTF-8; EINVAL for a bit of `which`, a group, a policy, a
 * priority or a `critical` that does not exist; EPERM and EDQUOT as for SCHED_TEK and
 * pthread_setschedparam().
 */
TEK_API int tek_thread_set_attributes(pthread_t thread, unsigned int which,
				      const struct tek_attributes *attributes);

/*
 * The same by kernel thread id, 0 being the calling thread.
 *
 * A thread of another process can be read: from its process's table, with policy,
 * priority and vm_bytes from the kernel.  It cannot be set.
 * Further errors: EPERM when setting one of another process; EACCES if that process's
 * table may not be read, ENODATA if it has none because it does not run under TEK,
 * EBADMSG if the table makes no sense, EBUSY if the record was being written for too
 * long (its process may have been stopped in mid-write).
 */
TEK_API int tek_tid_get_attributes(pid_t tid, struct tek_attributes *attributes);
TEK_API int tek_tid_set_attributes(pid_t tid, unsigned int which,
				   const struct tek_attributes *attributes);

/*
 * Ask the kernel for policy, priority and vm_bytes of the thread attributes->tid, of
 * whatever process; a Fast thread that asked for SCHED_TEK keeps saying so.
 * Errors: ESRCH if there is no such thread, EACCES if the kernel does not tell (or the
 * thread ended while it was asked).
 */
TEK_API int tek_attributes_refresh(struct tek_attributes *attributes);

/*
 * The paper's names (tek-2020, IV-C): all attributes of a thread of this process.
 * Begin with what pthread_get_attributes() gives and change what shall change: policy
 * and priority are set only if they differ from what it gives.
 */
TEK_API int pthread_get_attributes(pthread_t thread, struct tek_attributes *attributes);
TEK_API int pthread_set_attributes(pthread_t thread, const struct tek_attributes *attributes);

/* How much of a stack is used (tek-2020, IV-B); the thresholds are those of `tek run`. */
enum tek_zone {
	TEK_STACK_NOT_MEASURED = 0,
	TEK_STACK_LOW = 1, /* most of it is wasted */
	TEK_STACK_NORMAL = 2,
	TEK_STACK_HIGH = 3, /* near its end */
};

/*
 * A thread's stack.  Sizes are in bytes and counted from the end of the stack, its highest
 * address, where the C library keeps data of its own: that is in them, the guard is not.
 */
struct tek_stack_info {
	uint64_t stack_bytes; /* size; of the first thread its limit now, 0 if unlimited */
	uint64_t peak_bytes;  /* certainly used so far, at the deepest */
	uint64_t bound_bytes; /* used at most */
	int exact;            /* 1: peak_bytes is right to the byte */
	enum tek_zone zone;
};

/*
 * Measure how much of its stack a thread of this process has used up to now, whatever it is
 * doing, without making any of the stack resident: some microseconds.  Where stacks are not
 * measured anyway (`tek run --stack`) what an earlier thread left on a stack that the C library
 * used again is not known, and the two numbers lie further apart.
 * Errors: ESRCH if the thread has ended; EAGAIN if there is no slot for it; ENODATA if it is not
 * known where its stack lies, or what of it is used.
 * One that left by the system call exit may be found until TEK next looks after it.
 */
TEK_API int tek_stack_get(pthread_t thread, struct tek_stack_info *info);

/*
 * The same by kernel thread id, 0 being the calling thread.  Further error: EPERM for a thread of
 * another process, of which tek_tid_get_attributes() tells what its table says.
 */
TEK_API int tek_tid_stack_get(pid_t tid, struct tek_stack_info *info);

/*
 * The kernel's id of the calling thread, as gettid(2), without a system call once it
 * is known; right in the child of fork(), vfork(), _Fork() and clone() too, system
 * calls made by hand included unless they share the memory (CLONE_VM).  libtek.so
 * puts it in the place of gettid().  Async-signal-safe.
 */
TEK_API pid_t tek_gettid(void);

/*
 * Three ways for a thread to learn who it is, as the paper compares them
 * (rtos-linux-scalability-2018, 3.1.6): the more a way takes for granted, the less it costs.  `tek
 * bench ident` measures them.  tek_gettid() is right everywhere.
 *
 * Checked: the kernel's id of the calling thread, in *tid.
 * Errors: ESRCH where the caller is no thread of this program that TEK knows: the child of vfork(),
 * which borrows its parent's thread; threads that share one thread's variables, by clone() with
 * CLONE_VM; a thread past the last of its destructors; one for which there is no slot; any where
 * TEK does nothing.  *tid is then as it was.
 */
TEK_API int tek_self_checked(pid_t *tid);

/*
 * Fast: the same by one load, without any check.  Right in threads that began by pthread_create(),
 * and in the first one; in the child of a fork from the first tek_gettid() on, until then it is the
 * parent's.  0 in a thread that TEK has not met: tek_gettid() once, and it is known.
 * Async-signal-safe.
 */
TEK_API pid_t tek_self_fast(void);

/*
 * By register: the thread pointer, by one instruction where the processor has a register for it.
 * It is never 0, and no other thread that lives has it, nor has another user-level thread of
 * libtek-uthread.so.  It is no id of the kernel's, stays what it is in the child of a fork, and is
 * another thread's once this one has ended.  Async-signal-safe; needs no library.
 */
static inline uintptr_t tek_self_register(void)
{
	uintptr_t pointer;
#if defined(__x86_64__) && !defined(__ILP32__)
	/* The ABI wants the thread pointer to point to itself. */
	__asm__ volatile("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__i386__)
	__asm__ volatile("movl %%gs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(pointer));
#elif defined(__arm__) && __ARM_ARCH >= 7
	__asm__ volatile("mrc p15, 0, %0, c13, c0, 3" : "=r"(pointer));
#else
	pointer = (uintptr_t)pthread_self();
#endif
	return pointer;
}

#ifndef TEK_OPTIONAL
/* What the call below reads, without even a call into the library; not for programs. */
struct tek_self_id {
	pid_t tid;
	unsigned int epoch; /* *tek_epoch_ when tid was learnt; 0: not known */
};
extern __thread struct tek_self_id tek_self_id_ __attribute__((tls_model("initial-exec")));
extern unsigned int *tek_epoch_; /* 0 in a child that TEK has not noticed yet */

static inline pid_t tek_gettid_inline(void)
{
	unsigned int epoch = __atomic_load_n(tek_epoch_, __ATOMIC_RELAXED);
	return epoch != 0 && tek_self_id_.epoch == epoch ? tek_self_id_.tid : tek_gettid();
}
#define tek_gettid() tek_gettid_inline()

static inline pid_t tek_self_fast_inline(void)
{
	return __atomic_load_n(&tek_self_id_.tid, __ATOMIC_RELAXED);
}
#define tek_self_fast() tek_self_fast_inline()
#endif

/*
 * Switch follow-marked on (1, the default unless TEK_FOLLOW_MARKED=0) or off (0)
 * for this process.  Errors: EINVAL if on is neither 0 nor 1.
 */
TEK_API int tek_follow_marked(int on);

/*
 * Set the budget of every Fast thread of this process to which no rule gives one of
 * its own: at most cpu_ns of CPU time in any window_ns.  cpu_ns 0 switches the guard off; then only
 * the kernel's own real-time throttling protects the rest of the device.
 * The guard looks 16 times a window, so it can let a thread have up to a
 * sixteenth of the window more.  Where RLIMIT_RTTIME is set the budget is at most
 * half of it.
 * Threads that are Fast by tekd have the budgets of its configuration.
 * Errors: EINVAL if window_ns is below 10 ms or above 1 hour, or cpu_ns is above
 * window_ns.
 */
TEK_API int tek_set_budget(uint64_t cpu_ns, uint64_t window_ns);

/*
 * Whether a thread of this process could enter the Fast Region now: 0 or the
 * error that SCHED_TEK would get (EPERM, EAGAIN).  Starts the guard thread, or connects to
 * tekd, which may yet refuse one thread more.
 */
TEK_API int tek_check(void);

/* The version of the library that is loaded, as "MAJOR.MINOR.PATCH". Never NULL. */
TEK_API const char *tek_version(void);

#ifdef __cplusplus
}
#endif

#ifdef TEK_OPTIONAL
#include <tek/tek_optional.h>
#endif

#endif
