/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opening a FIFO waits for the other end, and opening a device for the device. */
#include "uthread/posix/blocking.h"

#include "base/next.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/interrupt.h"

#include <sys/stat.h>

bool tek_ut__open_may_wait(int directory, const char *path)
{
	struct stat status;

	return fstatat(directory, path, &status, 0) == 0 &&
	       (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
}

int tek_ut__openat(int directory, const char *path, int flags, mode_t mode)
{
	/* No wait with these flags; the engine's own calls have them, and must not be cancelled. */
	if (flags & (O_NONBLOCK | O_PATH | O_DIRECTORY))
		return TEK_REAL(openat)(directory, path, flags, mode);
	tek_ut__cancel_point();
	if (!tek_ut__open_may_wait(directory, path))
		return TEK_REAL(openat)(directory, path, flags, mode);
	tek_ut__aside_begin();
	int file = TEK_REAL(openat)(directory, path, flags, mode);
	tek_ut__aside_end();
	return file;
}
