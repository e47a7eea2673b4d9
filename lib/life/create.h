/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The creation of a thread: calls the features in order. preload/create.c calls it. */
#ifndef TEK_LIFE_CREATE_H
#define TEK_LIFE_CREATE_H

#include <pthread.h>

/* pthread_create(3) with TEK, called from `call_site`: most threads are created here. */
int tek__create(pthread_t *handle, const pthread_attr_t *attr, void *(*routine)(void *),
		void *argument, const void *call_site);

#endif
