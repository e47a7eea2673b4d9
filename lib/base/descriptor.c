/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HIGH_FD = 900 }; /* above what programs count on, below what select(2) can do */

static int high_fd(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > HIGH_FD)
		return HIGH_FD;
	return (int)(limit.rlim_cur - limit.rlim_cur / 4);
}

int tek__descriptor_move_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, high_fd());

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

bool tek__descriptor_file(int fd, struct tek_file_identity *file)
{
	struct stat status;

	if (fstat(fd, &status))
		return false;
	*file = (struct tek_file_identity){.device = status.st_dev, .inode = status.st_ino};
	return true;
}

bool tek__descriptor_is(int fd, struct tek_file_identity file)
{
	struct tek_file_identity now;
	return tek__descriptor_file(fd, &now) && now.device == file.device &&
	       now.inode == file.inode;
}
