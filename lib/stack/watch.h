/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Measures the stacks of running threads from time to time. So the table is up to date, and a
 * nearly full stack is reported while the program runs.
 *
 * TEK's helper thread `tek-stack` does so. It is created with the second thread of the process. It
 * ends with the last thread that TEK knows, or a period after the process has one thread left: some
 * calls, such as unshare(2), are allowed to a process with one thread only.
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
