/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/create.h"
#include "life/start.h"

#include "base/export.h"
#include "base/real.h"
#include "preload/c11.h"
#include "stack/size.h"

#include <threads.h>

TEK_EXPORT int pthread_create(pthread_t *handle, const pthread_attr_t *attr,
			      void *(*routine)(void *), void *argument)
{
	if (!tek__start())
		return tek__real.pthread_create(handle, attr, routine, argument);
	return tek__create(handle, attr, routine, argument, __builtin_return_address(0));
}

/* C11's threads are the same ones. The joiner reads only the part of the result that an int has. */
TEK_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
	void *(*function)(void *) = (void *(*)(void *))(void (*)(void))routine;
	int error = tek__start() ? tek__create(thread, NULL, function, argument,
					       __builtin_return_address(0))
				 : tek__real.pthread_create(thread, NULL, function, argument);
	return tek__c11_result(error);
}

TEK_EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr)
{
	tek__start(); /* its last step queries the default */
	int error = tek__real.pthread_setattr_default_np(attr);
	if (!error)
		tek__size_default_changed();
	return error;
}
