/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of threads that are set past TEK: by a function that the program looked up in the C library
 * itself (ctypes of Python), by prctl(2) as a raw system call, or by /proc/self/task/TID/comm.
 *
 * Where rules ask for names, a helper thread, `tek-names`, polls the kernel's names: 50 ms after a
 * thread was created, then less and less often, up to 0.8 s, until a name changes.  It is made with
 * the second thread of the process, and ends with the last one that is known, or when all threads
 * but one have ended.  A name that a thread has from its creator does not count as its own.
 *
 * All functions need the lock.
 */
#ifndef TEK_LIFE_NAMES_H
#define TEK_LIFE_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct tek_thread;

/* A thread is about to be created. */
void tek__names_start(void);

/*
 * The kernel has this name for the thread. True: it was set past TEK since the last poll, and the
 * thread has it now; rules and the Stack Tuner are notified.
 */
bool tek__names_note(struct tek_thread *thread, const char name[16]);

bool tek__names_is(pid_t tid);

/* As tek__guard_let_go(). */
bool tek__names_let_go(pthread_t *handle);

void tek__names_forget(void);

#endif
