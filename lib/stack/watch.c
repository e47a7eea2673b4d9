/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/watch.h"

void tek__watch_start(void) {}

bool tek__watch_is(pid_t tid)
{
	(void)tid;
	return false;
}

bool tek__watch_let_go(pthread_t *helper)
{
	(void)helper;
	return false;
}

void tek__watch_forget(void) {}
