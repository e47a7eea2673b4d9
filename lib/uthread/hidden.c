/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* So many numbers below, or beyond, the limit are enough for all of the engine's. */
#define MARGIN 16
/*
 * Descriptors are placed beyond soft limits up to this one. For larger numbers the kernel would
 * need a larger table, and programs with such a limit rarely have so many files.
 */
#define MOST_BEYOND 65536

atomic_int tek_ut__hidden[TEK_HIDDEN_FILES] = {-1, -1, -1, -1, -1};

static pid_t process;

void tek_ut__hidden_start(void)
{
	process = getpid();
}

bool tek_ut__hidden_borrowed(void)
{
	return getpid() != process;
}

/*
 * The same file with a number beyond the soft limit, where a program can have none; -1: the hard
 * limit leaves no room. For a moment the soft limit is higher.
 */
static int duplicate_beyond(int file, const struct rlimit *limit)
{
	const struct rlimit64 before = {.rlim_cur = limit->rlim_cur, .rlim_max = limit->rlim_max};
	struct rlimit64 more = before;

	more.rlim_cur += MARGIN;
	if (more.rlim_cur > more.rlim_max ||
	    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL) != 0)
		return -1;
	int moved = fcntl(file, F_DUPFD_CLOEXEC, (int)limit->rlim_cur);
	syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &before, NULL);
	return moved;
}

int tek_ut__hidden_place(int file)
{
	struct rlimit limit;
	int low = 1000, moved = -1;

	if (file < 0)
		return -errno;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		if (limit.rlim_cur < MOST_BEYOND)
			moved = duplicate_beyond(file, &limit);
		if (limit.rlim_cur < 1024)
			low = (int)limit.rlim_cur - MARGIN;
	}
	if (moved < 0 && low > file)
		moved = fcntl(file, F_DUPFD_CLOEXEC, low);
	if (moved < 0)
		return file;
	/* Not close(2) of the C library: its symbol is the engine's. */
	syscall(SYS_close, file);
	return moved;
}

void tek_ut__hidden_close(unsigned int which)
{
	int file = atomic_exchange(&tek_ut__hidden[which], -1);

	if (file >= 0)
		syscall(SYS_close, file);
}

void tek_ut__hidden_forget_closed(void)
{
	for (unsigned int i = 0; i < TEK_HIDDEN_FILES; i++) {
		int file = tek_ut__hidden_file(i);
		if (file >= 0 && syscall(SYS_fcntl, file, F_GETFD) < 0)
			atomic_compare_exchange_strong(&tek_ut__hidden[i], &file, -1);
	}
}

int tek_ut__hidden_next(int file)
{
	int first = -1;

	for (unsigned int i = 0; i < TEK_HIDDEN_FILES; i++) {
		int one = tek_ut__hidden_file(i);
		if (one >= file && (first < 0 || one < first))
			first = one;
	}
	return first;
}

bool tek_ut__hidden_move(int file)
{
	/* In the child of vfork(2) the number is free, and the variables are the parent's. */
	if (!tek_ut__hidden_is(file) || tek_ut__hidden_borrowed())
		return true;
	int moved = fcntl(file, F_DUPFD_CLOEXEC, file + 1);
	if (moved < 0 && errno != EBADF)
		moved = fcntl(file, F_DUPFD_CLOEXEC, 3);
	/*
	 * The program has closed it by a system call of its own; code that needs it opens it anew.
	 */
	if (moved < 0 && errno != EBADF)
		return false;
	/* A waiter waits for the file, not for the number: it is not affected. */
	for (unsigned int i = 0; i < TEK_HIDDEN_FILES; i++) {
		if (tek_ut__hidden_file(i) == file)
			atomic_store(&tek_ut__hidden[i], moved);
	}
	return true;
}
