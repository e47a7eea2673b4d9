/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library of a program, with functions of its own that have names of the C library's. */
#include <stdio.h>

#define OWN(name) \
	int own_##name(void) __asm__(#name); \
	int own_##name(void) \
	{ \
		fputs("captured: " #name "\n", stderr); \
		return -1; \
	}

OWN(mlock)
OWN(prctl)
OWN(pthread_attr_setschedparam)
OWN(pthread_attr_setschedpolicy)
OWN(pthread_key_create)
OWN(pthread_sigmask)
OWN(sched_getparam)
OWN(sched_getscheduler)
OWN(sched_setscheduler)
