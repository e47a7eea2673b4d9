/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * TEK's reports: struct tek_event (abi/tek_event.h) to the file that $TEK_EVENTS names, else one
 * line on standard error. TEK reports each event once and no more than it must, because both
 * belong to the program.
 *
 * tek__report_*() note an event under the lock; tek__unlock() writes it.
 */
#ifndef TEK_THREADS_REPORT_H
#define TEK_THREADS_REPORT_H

#include "tek_abi.h"
#include "threads/thread.h"

struct tek_backtrace;

struct tek_noted {
	unsigned int count;
	struct tek_event events[8];
};

/* The Fast Region was refused to a thread; `why`: tekd's reason, or "". Once a process. */
void tek__report_refused(const struct tek_thread *thread, int error, const char *why);

/* tekd did not put a thread into its group; `why` likewise. Once a process. */
void tek__report_not_placed(const struct tek_thread *thread, int error, const char *why);

/* A thread that had used_ns of CPU time in one window was sent back for ban_ns. */
void tek__report_overrun(const struct tek_thread *thread, uint64_t used_ns, uint64_t window_ns,
			 uint64_t ban_ns);

/* A thread ends. Only if it was ever Fast, and only into an event file. */
void tek__report_summary(const struct tek_thread *thread);

/* The same by tekd, for a thread that it allows so much. */
void tek__report_overrun_of(const struct tek_thread *thread, uint64_t used_ns, uint64_t allowed_ns);

/* A thread's stack is nearly used up. */
void tek__report_stack_high(const struct tek_thread *thread);

/*
 * The calling thread ran out of its stack, at this address.  Written at once; async-signal-safe,
 * needs no lock.
 */
void tek__report_overflow(const struct tek_thread *thread, uintptr_t address,
			  const struct tek_backtrace *trace);

/* A variable of the environment was not understood and is not followed. */
void tek__report_bad_option(const char *name, const char *text);

/* Reports the part of `tek run --place` that is not done, and the reason. Needs the lock. */
void tek__report_place(const char *why);

/*
 * There are more threads than CPUs for a kind of locks or barriers: `--lock k42`, for which `--lock
 * auto` is the cure.  Needs the lock.
 */
void tek__report_crowd(const char *option, const char *kind, const char *cure, unsigned int threads,
		       unsigned int cpus);

/* TEK stands down, because of a seccomp filter that would kill for this call. Needs the lock. */
void tek__report_confined(const char *call);

/* A program that TEK cannot ride in is about to run. Written at once; needs no lock. */
void tek__report_not_covered(const char *path, const char *why);

/* One of the other word size, for which libraries with these names are not there. Likewise. */
void tek__report_lacking(const char *path, const char *names);

/* Whether anything was noted; move it into *noted. Both need the lock. */
bool tek__report_pending(void);
void tek__report_take(struct tek_noted *noted);

/* Write it. Needs no lock. */
void tek__report_write(const struct tek_noted *noted);

/* At the start; in the child of a fork. */
void tek__report_start(void);
void tek__report_forget(void);

#endif
