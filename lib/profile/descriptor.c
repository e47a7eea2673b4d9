/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/descriptor.h"

#include "tek_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Larger ones are asked about each time. */
#define MOST_KNOWN 65536

/* /dev/zero, /dev/null, /dev/urandom, ...: they are computed. */
#define MEMORY_DEVICES 1

/* A part, plus 1; 0: it was not asked yet. */
static unsigned char known[MOST_KNOWN];

/* False: it is none. */
static bool ask(int fd, tek_u32 *part)
{
	struct statx status = {0};
	int saved = errno;
	/* A system call: the C library's fstat() is ours, and counts. */
	bool is_there = syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) == 0;

	errno = saved;
	*part = 0;
	switch (status.stx_mode & S_IFMT) {
	case S_IFIFO:
	case S_IFSOCK:
		*part = TEK_PROFILE_FILE;
		break;
	case S_IFCHR:
		if (status.stx_rdev_major != MEMORY_DEVICES)
			*part = TEK_PROFILE_FILE;
		break;
	case 0: /* eventfd(), timerfd_create(), signalfd(), inotify_init() have no type */
		if (is_there)
			*part = TEK_PROFILE_IDLE;
		break;
	default:
		break;
	}
	return is_there;
}

tek_u32 tek_prof__descriptor(int fd)
{
	tek_u32 part;

	if (fd < 0)
		return 0;
	unsigned char have = fd < MOST_KNOWN ? __atomic_load_n(&known[fd], __ATOMIC_RELAXED) : 0;
	if (__builtin_expect(have != 0, 1))
		return have - 1u;
	if (ask(fd, &part) && fd < MOST_KNOWN)
		__atomic_store_n(&known[fd], (unsigned char)(part + 1), __ATOMIC_RELAXED);
	return part;
}

void tek_prof__descriptor_forget(int fd)
{
	if (fd >= 0 && fd < MOST_KNOWN && __atomic_load_n(&known[fd], __ATOMIC_RELAXED))
		__atomic_store_n(&known[fd], 0, __ATOMIC_RELAXED);
}

void tek_prof__descriptors_forget(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < MOST_KNOWN; fd++)
		tek_prof__descriptor_forget((int)fd);
}
