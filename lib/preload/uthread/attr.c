/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The symbols by which attributes of running threads are asked for, and those of threads to come
 * are set for all.
 */
#include "uthread/posix/attr.h"

#include "base/export.h"
#include "base/next.h"

#include <errno.h>

TEK_EXPORT int pthread_getattr_np(pthread_t handle, pthread_attr_t *attr)
{
	struct tek_posix *posix;

	switch (tek_ut__posix_find(handle, &posix)) {
	case TEK_POSIX_LIVE:
		return tek_ut__attr_of(posix, attr);
	case TEK_POSIX_GONE:
		return ESRCH;
	default:
		return TEK_REAL(pthread_getattr_np)(handle, attr);
	}
}

TEK_EXPORT int pthread_setattr_default_np(const pthread_attr_t *attr)
{
	int error = TEK_REAL(pthread_setattr_default_np)(attr);

	if (!error)
		tek_ut__attr_default_changed();
	return error;
}
