/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows in which touch waits for no lock. */
#include "row.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_BYTES 800000
#define SLEEPERS 2000
#define SLEEPER_STACK 65536

static int to_server[2], to_touch[2];
static int file;

static void *compute(void *arg)
{
	(void)arg;
	/* A new thread has the name of its creator. */
	pthread_setname_np(pthread_self(), "decoder");
	work_ms(PART_MS);
	background_did();
	return NULL;
}

static void join_wait(void)
{
	pthread_t thread;
	must(pthread_create(&thread, NULL, compute, NULL), "pthread_create");
	must(pthread_join(thread, NULL), "pthread_join");
}

static void transfer(int fd, bool write_it)
{
	char byte = 0;
	ssize_t done = write_it ? write(fd, &byte, 1) : read(fd, &byte, 1);
	if (done != 1)
		err(EXIT_FAILURE, "cannot exchange a message");
}

static void *serve(void *arg)
{
	(void)arg;
	for (;;) {
		transfer(to_server[0], false);
		work_ms(PART_MS);
		background_did();
		transfer(to_touch[1], true);
	}
	return NULL;
}

static void pipe_prepare(void)
{
	if (pipe(to_server) || pipe(to_touch))
		err(EXIT_FAILURE, "cannot make a pipe");
}

/* One socket a side, each for both directions. */
static void socket_prepare(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		err(EXIT_FAILURE, "cannot make sockets");
	to_server[1] = to_touch[0] = pair[0];
	to_server[0] = to_touch[1] = pair[1];
}

static void server_start(void)
{
	thread_start("server", serve, NULL);
}

static void server_wait(void)
{
	transfer(to_server[1], true);
	transfer(to_touch[0], false);
}

/* Not in /tmp, which often has no disk. */
static void fsync_prepare(void)
{
	const char *directory = getenv("TMPDIR");
	char path[4096];
	snprintf(path, sizeof(path), "%s/tek-matrix-XXXXXX", directory ? directory : "/var/tmp");
	file = mkstemp(path);
	if (file < 0 || unlink(path))
		err(EXIT_FAILURE, "cannot make the file %s", path);
}

static void fsync_wait(void)
{
	static char content[FILE_BYTES];
	memset(content, content[0] + 1, sizeof(content));
	if (pwrite(file, content, sizeof(content), 0) != FILE_BYTES || fdatasync(file))
		err(EXIT_FAILURE, "cannot write a file");
}

static void *sleep_on(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void sleepers_start(void)
{
	pthread_attr_t attr;
	must(pthread_attr_init(&attr), "pthread_attr_init");
	must(pthread_attr_setstacksize(&attr, SLEEPER_STACK), "pthread_attr_setstacksize");
	for (int i = 0; i < SLEEPERS; i++) {
		pthread_t thread;
		must(pthread_create(&thread, &attr, sleep_on, NULL), "pthread_create");
	}
	pthread_attr_destroy(&attr);
}

const struct row other_rows[] = {
	{.name = "none"},
	{.name = "join", .wait = join_wait},
	{.name = "pipe", .prepare = pipe_prepare, .start = server_start, .wait = server_wait},
	{.name = "socket", .prepare = socket_prepare, .start = server_start, .wait = server_wait},
	{.name = "fsync", .prepare = fsync_prepare, .wait = fsync_wait},
	{.name = "threads", .start = sleepers_start},
	{.name = NULL},
};
