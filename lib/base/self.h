/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel id of the calling thread, without a system call once it is known.
 *
 * A cached id goes wrong in the child of a fork, where the thread has another id but the same
 * memory. fork(), _Fork() and clone calls without CLONE_VM are noticed by a word that the kernel
 * clears in their children (madvise(2), MADV_WIPEONFORK). vfork() and clone() with CLONE_VM share
 * the memory, that word and the thread's own included: their children first mark it as lent.
 *
 * These functions need no lock and are async-signal-safe, tek__self_start() apart.
 */
#ifndef TEK_BASE_SELF_H
#define TEK_BASE_SELF_H

#include <stdbool.h>
#include <sys/types.h>
#include <tek/tek.h>

/*
 * The public half is in tek/tek.h: the calling thread's id and when it was learnt, and the
 * number of the process among its forefathers since the program began, which is 0 in a child
 * that has not noticed yet that it is one.
 */
enum tek_use {
	TEK_SELF_OWN,    /* one kernel thread has these variables */
	TEK_SELF_LENT,   /* a vfork() child has them until it execs or ends; tid is its parent's */
	TEK_SELF_SHARED, /* several have them at the same time */
};
extern __thread enum tek_use tek__self_use __attribute__((tls_model("initial-exec")));

/* Until then, and where the kernel cannot clear a page in children, each look is a system call. */
void tek__self_start(void);

/* *tek_epoch_, given to a child that has none yet; 0: only fork()'s handlers notice a fork. */
unsigned int tek__self_epoch(void);

/* In the child of a fork: its variables are its own, whatever they were in the parent. */
void tek__self_forget(void);

/* The calling thread's id where it is not known; learns it. */
pid_t tek__self_ask(void);

/* The calling thread has this id: it was just created. */
void tek__self_is(pid_t tid);

/*
 * In a child that has just borrowed its parent's variables (vfork); or, for good, in a thread
 * that is about to share its own (clone with CLONE_VM).  Their owner's id must be known.
 */
void tek__self_lend(bool for_good);

/*
 * Whether the calling thread runs with the variables of another one, so that nothing
 * there is its own.
 */
bool tek__self_is_borrower(void);

/* Kernel id of the calling thread where it is known; else 0. */
static inline pid_t tek__known_tid(void)
{
	unsigned int epoch = __atomic_load_n(tek_epoch_, __ATOMIC_RELAXED);
	return epoch != 0 && tek_self_id_.epoch == epoch ? tek_self_id_.tid : 0;
}

/* Kernel id of the calling thread. */
static inline pid_t tek__gettid(void)
{
	pid_t tid = tek__known_tid();
	return tid ? tid : tek__self_ask();
}

#endif
