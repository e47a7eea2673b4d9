/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/channel.h"

#include "base/clock.h"
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The variable is copied: a program may change its environment at any time. */
static char event_path[256];

/* The file of standard error at the start. A program may have put a file of its own there since. */
static struct stat first_stderr;
static bool have_stderr;

/* Programs that set the title of their process write over the memory of __progname. */
static char program[256];

const char *tek__channel_program(void)
{
	return program[0] ? program : __progname;
}

void tek__channel_start(void)
{
	const char *path = secure_getenv("TEK_EVENTS");

	if (!program[0])
		snprintf(program, sizeof(program), "%s", __progname);
	if (path && strlen(path) < sizeof(event_path))
		strcpy(event_path, path);
	have_stderr = fstat(STDERR_FILENO, &first_stderr) == 0;
}

bool tek__channel_has_file(void)
{
	return event_path[0] != '\0';
}

static uint64_t bit(int number)
{
	return 1ull << (number - 1);
}

/*
 * Write without the signals that a write can bring, which would be the program's
 * death: SIGPIPE, SIGXFSZ beyond RLIMIT_FSIZE, SIGTTOU in the background.
 */
static void write_quietly(int fd, const void *bytes, size_t length)
{
	static const struct timespec now;
	uint64_t ours = bit(SIGPIPE) | bit(SIGXFSZ) | bit(SIGTTOU), before, pending = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &ours, &before, sizeof(before));
	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	ours &= ~pending; /* the program's own */
	/* A full disk, or no reader left: the event is lost, the program is not. */
	syscall(SYS_write, fd, bytes, length);
	while (syscall(SYS_rt_sigtimedwait, &ours, NULL, &now, sizeof(ours)) > 0)
		;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

void tek__channel_report(const char *line, size_t length)
{
	static const struct timespec at_once;
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct stat now;

	if (!have_stderr || fstat(STDERR_FILENO, &now) || now.st_dev != first_stderr.st_dev ||
	    now.st_ino != first_stderr.st_ino)
		return;
	/*
	 * A pipe without a reader that empties it must not stop the program, or the budget guard.
	 */
	if (syscall(SYS_ppoll, &ready, 1, &at_once, NULL, sizeof(uint64_t)) == 1 &&
	    ready.revents & POLLOUT)
		write_quietly(STDERR_FILENO, line, length);
}

bool tek__channel_append(const struct tek_event *event)
{
	if (!event_path[0])
		return false;
	/* Opened each time: a program closes descriptors that it does not know. */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, event_path,
			      O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	write_quietly(fd, event, sizeof(*event));
	syscall(SYS_close, fd);
	return true;
}

void tek__channel_copy_tail(tek_u8 *to, size_t size, const char *from)
{
	size_t length = strlen(from);
	size_t left_out = length < size ? 0 : length - (size - 1);
	memcpy(to, from + left_out, length - left_out);
}

struct tek_event tek__channel_event(unsigned int kind)
{
	struct tek_event event = {
		.magic = TEK_EVENT_MAGIC,
		.bytes = sizeof(event),
		.kind = (tek_u16)kind,
		.pid = (tek_u32)syscall(SYS_getpid),
		.time_ns = tek__now(CLOCK_REALTIME),
	};
	tek__channel_copy_tail(event.program, sizeof(event.program), tek__channel_program());
	return event;
}
