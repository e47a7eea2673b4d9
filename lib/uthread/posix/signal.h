/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signals of user-level threads.
 *
 * Each thread has a mask (struct tek_uthread.mask), which its kernel thread has while it runs. So a
 * signal to the process is then handled at once, on that thread's stack. A signal to one thread is
 * put into that thread's list. So is one that arrives while the engine is at work, or while no
 * thread runs that would take it (router.h). The thread takes the signal when it next runs: it
 * sends the signal to its current kernel thread, and the kernel performs the program's action
 * (handler, stop, or death).
 *
 * The engine's handler (action.h) calls the program's handlers, never between tek_ut__enter() and
 * tek_ut__leave().
 */
#ifndef TEK_UTHREAD_POSIX_SIGNAL_H
#define TEK_UTHREAD_POSIX_SIGNAL_H

#include "uthread/posix/record.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* Signals 1 to 64, the kernel's set: what a sigset_t begins with. */
#define TEK_SIGNALS 64

static inline uint64_t tek_ut__signal_bit(int number)
{
	return 1ull << (number - 1);
}

static inline uint64_t tek_ut__signals_of(const sigset_t *set)
{
	uint64_t signals;
	memcpy(&signals, set, sizeof(signals));
	return signals;
}

static inline void tek_ut__signals_to(sigset_t *set, uint64_t signals)
{
	memset(set, 0, sizeof(*set));
	memcpy(set, &signals, sizeof(signals));
}

/*
 * pthread_sigmask(3) of the calling user-level thread. 0 or EINVAL. Handlers may run. Not deferred.
 */
int tek_ut__signal_mask(int how, const sigset_t *set, sigset_t *old);

/*
 * By the only thread of a process: the same for the engine's own signals, too. The tick has no
 * other thread to switch to. They are unblocked before there is a second thread.
 */
void tek_ut__signal_mask_with_own(int how, uint64_t signals);
void tek_ut__signal_mask_without_own(void);

/* The calling user-level thread blocks exactly these. Handlers may run. Not deferred. */
void tek_ut__signal_mask_set(uint64_t mask);

/*
 * For a jump to code that had this mask; `out`: out of all handlers, so that ticks come again. Not
 * deferred.
 */
void tek_ut__signal_mask_jump(uint64_t mask, bool out);

/*
 * Its kernel thread gets the mask of the calling user-level thread. Handlers may run in the middle
 * of it, on this level. Between tek_ut__enter() and tek_ut__leave(): the next thread on the kernel
 * thread would have a different mask otherwise.
 */
void tek_ut__signal_mask_take(struct tek_uthread *thread);

/*
 * Its kernel thread has this mask, or soon will: notes that. Between tek_ut__enter() and
 * tek_ut__leave().
 */
void tek_ut__signal_mask_is(uint64_t mask);

/*
 * This signal is for that thread: pthread_kill(3) and pthread_sigqueue(3), with siginfo_t as the
 * handler will see it. 0, EAGAIN: too many are queued already, or ESRCH: it has ended. If it is the
 * caller its handler runs before this returns, unless it blocks the signal. Not deferred.
 */
int tek_ut__signal_send(struct tek_posix *posix, const siginfo_t *info);

/*
 * One that was sent to the process, for that thread. Whether it gets it. By the router, which has
 * deferred.
 */
bool tek_ut__signal_pass(struct tek_posix *posix, const siginfo_t *info);

/* As those two functions make it. */
siginfo_t tek_ut__signal_info(int number, const union sigval *value);

/* sigpending(2): of these, the ones in the calling thread's list. */
uint64_t tek_ut__signals_pending(void);

/* Takes one of `wanted` out of the calling thread's list, or returns false. Not deferred. */
bool tek_ut__signal_take(uint64_t wanted, siginfo_t *info);

/*
 * sigtimedwait(2) by a user-level thread: the number, or -1 and errno: EAGAIN, EINTR, EINVAL.
 * `timeout` and `info` may be NULL.  A cancellation point.
 */
int tek_ut__signal_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);

/*
 * Wakes the thread, or stops it for a moment, wherever it is, so that it acts on its signals or its
 * cancellation. The caller is another thread.
 */
void tek_ut__posix_attention(struct tek_posix *posix);

/*
 * The calling thread goes on: handlers run; it ends, if it has to be cancelled at once. See
 * preempt.h.
 */
void tek_ut__posix_resume(struct tek_uthread *thread, bool in_program);

/*
 * The calling thread is about to end: it takes its queued signals that it does not block, as a
 * kernel thread would on its way out of the kernel.
 */
void tek_ut__signals_take_last(void);

/* Whether that thread, which runs or is blocked in the kernel, has to act. A guess. */
enum tek_due {
	TEK_DUE_NOT,
	TEK_DUE_LATER, /* it has to be cancelled, and cannot be where it is now */
	TEK_DUE_NOW,
};
enum tek_due tek_ut__posix_due(const struct tek_posix *posix);

/*
 * The calling thread ends: nothing can be sent to it any more. Signals to the process in its list
 * go to another thread. Returns its previous flags. Between tek_ut__enter() and tek_ut__leave().
 */
unsigned int tek_ut__signals_end(struct tek_posix *self);

void tek_ut__signals_after_fork(void);

#endif
