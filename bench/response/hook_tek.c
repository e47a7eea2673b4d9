/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "hook.h"

#include <err.h>
#include <errno.h>
#include <tek/tek.h>

/* A refusal is reported, and the program runs on: the benchmark must see that it was refused. */
static void set_policy(int policy)
{
	struct sched_param param = {.sched_priority = 0};
	int error = pthread_setschedparam(pthread_self(), policy, &param);
	if (error) {
		errno = error;
		warn("scheduling policy %d", policy);
	}
}

void hook_critical_begin(void)
{
	set_policy(SCHED_TEK);
}

void hook_critical_end(void)
{
	set_policy(SCHED_OTHER);
}
