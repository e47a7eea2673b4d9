/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Measures the stacks of running threads from time to time, so that the table is up to date and a
 * nearly full stack is reported while the program runs. A helper thread of ours, `tek-stack`, made
 * with the second thread of the process, gone with the last one that is known, or a period after
 * all threads but one have gone: a process with two threads may not do all that a process with one
 * may, unshare(2) for example.
 *
 * All functions need the lock.
 */
#ifndef TEK_STACK_WATCH_H
#define TEK_STACK_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* There are threads to look at. */
void tek__watch_start(void);

bool tek__watch_is(pid_t tid);

/* As tek__guard_let_go(). */
bool tek__watch_let_go(pthread_t *handle);

void tek__watch_forget(void);

#endif
