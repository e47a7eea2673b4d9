/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names of threads. A user-level thread's is the engine's; that of the first one is the process's too, as ever. */
#include "preload/uthread/real.h"
#include "uthread/posix/record.h"
#include "uthread/table.h"
#include "uthread/trace.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

static struct tek_uthread *thread_of(const struct tek_posix *posix)
{
	return tek__posix_thread(posix);
}

TEK_EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	struct tek_posix *posix;
	enum tek_posix_kind kind = tek__posix_find(handle, &posix);

	if (kind == TEK_POSIX_FOREIGN || handle == tek__posix_first.handle) {
		int error = TEK_REAL(pthread_setname_np)(handle, name);
		if (error || kind == TEK_POSIX_FOREIGN)
			return error;
	}
	struct tek_uthread *thread = kind == TEK_POSIX_LIVE ? thread_of(posix) : NULL;
	if (!thread)
		return ESRCH;
	const size_t size = strnlen(name, sizeof(thread->name));
	if (size == sizeof(thread->name))
		return ERANGE;
	/* Who looks on meanwhile sees a mixture of two names, with an end. */
	memcpy(thread->name, name, size);
	memset(thread->name + size, 0, sizeof(thread->name) - size);
	tek__enter();
	tek__trace_named(thread);
	tek__table_named(thread);
	tek__leave();
	return 0;
}

TEK_EXPORT int pthread_getname_np(pthread_t handle, char *name, size_t size)
{
	struct tek_posix *posix;
	enum tek_posix_kind kind = tek__posix_find(handle, &posix);

	if (kind == TEK_POSIX_FOREIGN)
		return TEK_REAL(pthread_getname_np)(handle, name, size);
	const struct tek_uthread *thread = kind == TEK_POSIX_LIVE ? thread_of(posix) : NULL;
	if (!thread)
		return ESRCH;
	if (!thread->name[0] &&
	    tek__posix_first.thread) /* as its creator's, in the end the process's */
		return TEK_REAL(pthread_getname_np)(tek__posix_first.handle, name, size);
	if (size < sizeof(thread->name))
		return ERANGE;
	memcpy(name, thread->name, sizeof(thread->name));
	return 0;
}
