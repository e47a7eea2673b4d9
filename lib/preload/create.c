/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/create.h"

#include "ident/process.h"
#include "preload/real.h"

TEK_EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attr,
			      void *(*routine)(void *), void *argument)
{
	tek__start();
	return tek__create(handle, attr, routine, argument, __builtin_return_address(0));
}
