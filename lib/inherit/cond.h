/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fast threads that wait for condition variables.
 *
 * They wait in the C library, which locks the mutex again at the end, out of TEK's sight. So TEK
 * marks such a wait when it is about to end: a thread signals the condition variable, or the time
 * of the wait is over. From then on the waiter counts as one that waits for the mutex: its holder
 * is lifted, and so is each thread that locks the mutex before the waiter.
 *
 * A signal may wake another thread. So the first thread that locks the mutex some time later
 * asks the kernel whether the marked one still waits for the condition variable.
 *
 * A signal that TEK does not see, from another process or by an address of dlsym(3), wakes a Fast
 * thread, too. It lifts no thread.
 */
#ifndef TEK_INHERIT_COND_H
#define TEK_INHERIT_COND_H

#include "base/until.h"
#include "threads/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A marked wait is believed for that long, in ns: a real-time thread that was woken has locked the
 * mutex by then, or waits for it.
 */
#define TEK_COND_BELIEVED_NS UINT64_C(200000)

/* Fast threads wait, and so many waits are marked. Read without the lock. */
extern unsigned int tek__cond_waiting, tek__cond_marked;

/* The calling thread is Fast, and a wait that releases this mutex is to be seen here. */
bool tek__cond_is_seen(const pthread_mutex_t *mutex);

/* The clock of pthread_cond_timedwait(). */
clockid_t tek__cond_clock(const pthread_cond_t *cond);

/*
 * The wait begins: before the C library is called. tek__cond_end() follows when it has returned,
 * or is cancelled. `call` is the address to which the function of pthread.h returns. Takes the lock
 * if the wait has a time.
 */
void tek__cond_begin(const pthread_cond_t *cond, pthread_mutex_t *mutex, struct tek_until until,
		     uintptr_t call);
void tek__cond_end(void);

/*
 * The calling thread is about to wake threads, and `wake` does that: pthread_cond_signal() or
 * pthread_cond_broadcast(). Returns its result. Takes the lock if a Fast thread waits.
 */
int tek__cond_wake(pthread_cond_t *cond, int (*wake)(pthread_cond_t *cond));

/* The calling thread has locked a mutex, while waits are marked. Takes the lock. */
void tek__cond_locked(const pthread_mutex_t *mutex);

/* The mutex that a thread waits for at the end of a marked wait; NULL: none. */
const pthread_mutex_t *tek__cond_mutex_of(const struct tek_thread *thread);

/*
 * Marks the waits whose time is over, and lifts. The time of the next one; UINT64_MAX: none. Needs
 * the lock.
 */
uint64_t tek__cond_check(uint64_t now);

/* The thread ends, perhaps in the midst of a wait. Needs the lock. */
void tek__cond_abandon(struct tek_thread *thread);

/* In the child of a fork: no other thread waits. */
void tek__cond_forget(void);

#endif
