/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * critical - a thread that makes itself time-critical and sets its role.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tek/tek.h>

static void *answer(void *unused)
{
	struct tek_attributes gas = {.role = "gas detection", .group = TEK_URGENT};
	struct sched_param param = {.sched_priority = 0}; /* a nice value */
	int error;

	tek_thread_set_attributes(pthread_self(), TEK_ATTRIBUTE_ROLE | TEK_ATTRIBUTE_GROUP, &gas);
	error = pthread_setschedparam(pthread_self(), SCHED_TEK, &param);
	if (error)
		fprintf(stderr, "not time-critical: %s\n", strerror(error));
	else
		puts("time-critical");
	return unused;
}

int main(void)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, answer, NULL);

	if (error) {
		fprintf(stderr, "critical: no thread: %s\n", strerror(error));
		return 1;
	}
	return pthread_join(thread, NULL);
}
