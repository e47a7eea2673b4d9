/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/keeper.h"

#include "base/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

static char directory[PATH_BYTES - 32]; /* empty: outside of a run */
static unsigned int known;              /* the process that tek knows of */

/* The number of the pid namespace in which tek knows processes; 0: it does not watch. */
static uint64_t namespace_of_tek(void)
{
	char path[PATH_BYTES], text[32] = "";

	snprintf(path, sizeof(path), "%s/watched", directory);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strtoull(text, NULL, 10);
}

bool tek__keeper_start(void)
{
	const char *given = secure_getenv("TEK_RUN_DIR");

	if (!given || !*given)
		return true;
	if (*given != '/' || strlen(given) >= sizeof(directory))
		return false;
	strcpy(directory, given);
	const uint64_t here = tek__procfs_pid_namespace();
	return here && namespace_of_tek() == here;
}

static bool make_known(unsigned int pid)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%u.fifo", directory, pid);
	/* O_TRUNC: its time shows that the file is not that of an earlier process with this id. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	close(fd);
	known = pid;
	return true;
}

/* No cancellation point. */
static bool may_begin(void)
{
	char path[PATH_BYTES];
	int cancellation;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	/* The child of a fork has its parent's memory. */
	const unsigned int pid = (unsigned int)syscall(SYS_getpid);
	snprintf(path, sizeof(path), "%s/watched", directory);
	/* In this order: either tek finds the file, or it is seen here that it has ended. */
	const bool may = (known == pid || make_known(pid)) && access(path, F_OK) == 0;
	pthread_setcancelstate(cancellation, NULL);
	return may;
}

bool tek__keeper_begin(void)
{
	const int saved = errno;
	const bool may = !directory[0] || may_begin();

	errno = saved;
	return may;
}
