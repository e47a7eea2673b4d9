/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/create.h"

#include "ident/process.h"
#include "preload/real.h"
#include "stack/size.h"

TEK_EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attr,
			      void *(*routine)(void *), void *argument)
{
	tek__start();
	return tek__create(handle, attr, routine, argument, __builtin_return_address(0));
}

TEK_EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr)
{
	tek__start();
	int error = tek__real.pthread_setattr_default_np(attr);
	if (!error)
		tek__size_default_changed();
	return error;
}
