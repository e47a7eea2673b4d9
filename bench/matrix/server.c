/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "server.h"
#include "row.h"

#include "../response/clock.h"

#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_NS (20 * NS_PER_S)
#define PAUSE_TO_RETRY_NS (2 * NS_PER_MS)
#define OPEN_DIRECTORIES 16

static struct server server;

static int entry_remove(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat, (void)kind, (void)place;
	return remove(path);
}

void server_hide(void)
{
	if (server.directory[0])
		nftw(server.directory, entry_remove, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
	server.directory[0] = 0;
}

const struct server *server_prepare(void)
{
	const char *parent = getenv("TMPDIR");
	int length = snprintf(server.directory, sizeof(server.directory), "%s/tek-matrix-XXXXXX",
			      parent ? parent : "/tmp");
	/* The address of a socket is short. */
	if (length >= (int)sizeof(server.directory))
		errx(EXIT_FAILURE, "%s is too long for the name of a socket; set TMPDIR=/tmp",
		     parent);
	if (!mkdtemp(server.directory))
		err(EXIT_FAILURE, "cannot make the directory %s", server.directory);
	atexit(server_hide);
	snprintf(server.socket, sizeof(server.socket), "%s/socket", server.directory);
	return &server;
}

void server_start(const char *const command[])
{
	if (!child_start())
		return;
	/* The search path of a user may lack programs for administrators. */
	const char *path = getenv("PATH");
	char wider[4096];
	snprintf(wider, sizeof(wider), "%s:/usr/local/sbin:/usr/sbin:/sbin", path ? path : "");
	setenv("PATH", wider, 1);
	int null = open("/dev/null", O_RDWR);
	int messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	execvp(command[0], (char *const *)command);
	dup2(messages, STDERR_FILENO);
	err(EXIT_FAILURE, "cannot start %s", command[0]);
}

bool server_await(uint64_t begin)
{
	sleep_until(clock_ns() + PAUSE_TO_RETRY_NS);
	return clock_ns() < begin + PATIENCE_NS;
}
