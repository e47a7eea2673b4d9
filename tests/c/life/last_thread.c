/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A process ends with its last thread, and TEK's guard is not one of the program's threads. If
 * main() leaves by pthread_exit() and the other thread returns, exit() runs in that thread, with
 * status 0.
 */
#include "patience.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <tek/tek.h>
#include <unistd.h>

static void at_exit(void)
{
	char name[16] = "";
	prctl(PR_GET_NAME, name);
	printf("exit() runs in the thread %s\n", name);
	fflush(stdout);
	if (name[0] != 'l') /* not "last" */
		_exit(1);
}

static void *last(void *argument)
{
	pthread_setname_np(pthread_self(), "last");
	usleep(100000);
	return argument;
}

int main(void)
{
	pthread_t thread;

	if (tek_check() != 0) {
		puts("needs CAP_SYS_NICE or RLIMIT_RTPRIO");
		return 77; /* Meson: skipped */
	}
	limit_to(10);
	atexit(at_exit);
	if (tek_critical_enter() || tek_critical_leave() ||
	    pthread_create(&thread, NULL, last, NULL))
		return 2;
	pthread_detach(thread);
	pthread_exit(NULL);
}
