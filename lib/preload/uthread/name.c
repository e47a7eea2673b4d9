/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of threads. A user-level thread's is the engine's; that of the first one is the process's
 * too, as ever.
 */
#include "base/export.h"
#include "base/next.h"
#include "uthread/carrier.h"
#include "uthread/posix/record.h"
#include "uthread/table.h"
#include "uthread/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_NAME_BYTES 16 /* with its end */

static struct tek_uthread *thread_of(const struct tek_posix *posix)
{
	return tek_ut__posix_thread(posix);
}

/*
 * The first thread's name is that of the process's first kernel thread, wherever the thread runs.
 */
static bool is_elsewhere(void)
{
	const struct tek_carrier *carrier = tek_ut__here_carrier();

	return tek_ut__here_self() == tek_ut__posix_first.thread && carrier &&
	       carrier->tid != getpid();
}

static int name_of_process(int flags, char *name, size_t size)
{
	const int file = TEK_REAL(openat)(AT_FDCWD, "/proc/self/comm", flags | O_CLOEXEC);

	if (file < 0)
		return errno;
	const long bytes = flags == O_WRONLY ? syscall(SYS_write, file, name, size)
					     : syscall(SYS_read, file, name, size);
	const int error = bytes < 0 ? errno : 0;
	syscall(SYS_close, file);
	/* Behind it is the end of the line. */
	if (!error && flags == O_RDONLY)
		name[bytes > 0 ? bytes - 1 : 0] = '\0';
	return error;
}

static int set_kernel_name(pthread_t handle, const char *name)
{
	if (is_elsewhere() && strlen(name) < KERNEL_NAME_BYTES)
		return name_of_process(O_WRONLY, (char *)(uintptr_t)name, strlen(name));
	return TEK_REAL(pthread_setname_np)(handle, name);
}

static int get_kernel_name(pthread_t handle, char *name, size_t size)
{
	if (is_elsewhere() && size >= KERNEL_NAME_BYTES)
		return name_of_process(O_RDONLY, name, KERNEL_NAME_BYTES);
	return TEK_REAL(pthread_getname_np)(handle, name, size);
}

TEK_EXPORT int pthread_setname_np(pthread_t handle, const char *name)
{
	struct tek_posix *posix;
	enum tek_posix_kind kind = tek_ut__posix_find(handle, &posix);

	if (kind == TEK_POSIX_FOREIGN || handle == tek_ut__posix_first.handle) {
		int error = set_kernel_name(handle, name);
		if (error || kind == TEK_POSIX_FOREIGN)
			return error;
	}
	struct tek_uthread *thread = kind == TEK_POSIX_LIVE ? thread_of(posix) : NULL;
	if (!thread)
		return ESRCH;
	const size_t size = strnlen(name, sizeof(thread->name));
	if (size == sizeof(thread->name))
		return ERANGE;
	/* A concurrent reader sees a mixture of two names, with an end. */
	memcpy(thread->name, name, size);
	memset(thread->name + size, 0, sizeof(thread->name) - size);
	if (thread->bound && thread == tek_ut__here_self() && handle != tek_ut__posix_first.handle)
		syscall(SYS_prctl, PR_SET_NAME, thread->name);
	tek_ut__enter();
	tek_ut__trace_named(thread);
	tek_ut__table_named(thread);
	tek_ut__leave();
	return 0;
}

TEK_EXPORT int pthread_getname_np(pthread_t handle, char *name, size_t size)
{
	struct tek_posix *posix;
	enum tek_posix_kind kind = tek_ut__posix_find(handle, &posix);

	if (kind == TEK_POSIX_FOREIGN)
		return TEK_REAL(pthread_getname_np)(handle, name, size);
	const struct tek_uthread *thread = kind == TEK_POSIX_LIVE ? thread_of(posix) : NULL;
	if (!thread)
		return ESRCH;
	if (!thread->name[0] &&
	    tek_ut__posix_first.thread) /* as its creator's, in the end the process's */
		return get_kernel_name(tek_ut__posix_first.handle, name, size);
	if (size < sizeof(thread->name))
		return ERANGE;
	memcpy(name, thread->name, sizeof(thread->name));
	return 0;
}
