/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "place/number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Numbers that are left for programs, by pid; a later one may take a place before it was read, and
 * then the program gets the next number.
 */
enum { PLACES = 256 };

struct numbers {
	unsigned int next;
	struct {
		unsigned int pid, number; /* pid 0: free */
	} left[PLACES];
};

/* Where there is no memory: of this process alone. */
static struct numbers own;
static struct numbers *numbers = &own;

/* The file of the run; -1: there is none, or it cannot be had. */
static int open_file(void)
{
	const char *directory = secure_getenv("TEK_RUN_DIR");
	struct rlimit limit;
	char path[4096];

	/* Beyond a limit on the size of files posix_fallocate() would send SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(*numbers))
		return -1;
	if (!directory || *directory != '/' ||
	    snprintf(path, sizeof(path), "%s/place", directory) >= (int)sizeof(path))
		return -1;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	/* Its page is asked for now: later a full disk would mean SIGBUS. */
	if (posix_fallocate(fd, 0, sizeof(*numbers)) == 0)
		return fd;
	close(fd);
	return -1;
}

void tek__number_start(void)
{
	int saved = errno;
	int fd = open_file();
	int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
	void *map = mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, flags, fd, 0);

	if (fd >= 0)
		close(fd);
	if (map != MAP_FAILED)
		numbers = map;
	errno = saved;
}

unsigned int tek__number_next(void)
{
	/* A number and nothing else goes from one to the other. */
	return __atomic_fetch_add(&numbers->next, 1, __ATOMIC_RELAXED);
}

/* As the kernel knows it: this may be the child of vfork(). */
static unsigned int own_pid(void)
{
	return (unsigned int)syscall(SYS_getpid);
}

void tek__number_leave(unsigned int number)
{
	unsigned int pid = own_pid();

	/* The same process reads it, after execve(2). */
	__atomic_store_n(&numbers->left[pid % PLACES].number, number, __ATOMIC_RELAXED);
	__atomic_store_n(&numbers->left[pid % PLACES].pid, pid, __ATOMIC_RELEASE);
}

unsigned int tek__number_of_program(void)
{
	unsigned int pid = own_pid(), expected = pid;

	unsigned int number = __atomic_load_n(&numbers->left[pid % PLACES].number,
					      __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(&numbers->left[pid % PLACES].pid, &expected, 0, false,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return number;
	return tek__number_next();
}
