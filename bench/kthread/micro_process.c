/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Table 2: calls, signals and processes. */
#include "micro.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As lmbench has it. */
#define SELECTED 100

static int zero, null, selected[SELECTED];
static char own[4096];

static void null_call(unsigned times)
{
	while (times--)
		syscall(SYS_getppid);
}

static void null_io(unsigned times)
{
	char byte = 0;
	while (times--) {
		must(read(zero, &byte, 1), "read");
		must(write(null, &byte, 1), "write");
	}
}

static void call_stat(unsigned times)
{
	struct stat stat_;
	while (times--)
		must(stat("/proc/self/..", &stat_), "stat");
}

static void open_close(unsigned times)
{
	while (times--)
		close((int)must(open("/etc/passwd", O_RDONLY | O_CLOEXEC), "/etc/passwd"));
}

static void select_tcp(unsigned times)
{
	struct timeval now;
	fd_set set;

	while (times--) {
		now = (struct timeval){0, 0};
		FD_ZERO(&set);
		for (int i = 0; i < SELECTED; i++)
			FD_SET(selected[i], &set);
		must(select(selected[SELECTED - 1] + 1, &set, NULL, NULL, &now), "select");
	}
}

static void caught(int signal)
{
	(void)signal;
}

static void install(unsigned times)
{
	struct sigaction action = {.sa_handler = caught};
	while (times--)
		must(sigaction(SIGUSR1, &action, NULL), "sigaction");
}

static void handle(unsigned times)
{
	pid_t pid = getpid();
	while (times--)
		must(kill(pid, SIGUSR1), "kill");
}

static void fork_exit(unsigned times)
{
	while (times--) {
		pid_t child = (pid_t)must(fork(), "fork");
		if (!child)
			_exit(EXIT_SUCCESS);
		waitpid(child, NULL, 0);
	}
}

static void execute(unsigned times, char *const arguments[])
{
	int status;
	while (times--) {
		pid_t child = (pid_t)must(fork(), "fork");
		if (!child) {
			execv(*arguments, arguments);
			_exit(127);
		}
		waitpid(child, &status, 0);
		if (status)
			must(-1, *arguments);
	}
}

static void fork_exec(unsigned times)
{
	execute(times, (char *[]){own, "--nothing", NULL});
}

static void fork_sh(unsigned times)
{
	char command[sizeof(own) + 16];
	snprintf(command, sizeof(command), "%s --nothing", own);
	execute(times, (char *[]){"/bin/sh", "-c", command, NULL});
}

static double measure_null_call(void)
{
	return time_ns(null_call, 20000) / 1e3;
}

static double measure_null_io(void)
{
	zero = (int)must(open("/dev/zero", O_RDONLY), "/dev/zero");
	null = (int)must(open("/dev/null", O_WRONLY), "/dev/null");
	/* The mean of both. */
	double us = time_ns(null_io, 5000) / 2e3;
	close(zero);
	close(null);
	return us;
}

static double measure_stat(void)
{
	return time_ns(call_stat, 5000) / 1e3;
}

static double measure_open_close(void)
{
	return time_ns(open_close, 3000) / 1e3;
}

static double measure_select(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	for (int i = 0; i < SELECTED; i++) {
		selected[i] = (int)must(socket(AF_INET, SOCK_STREAM, 0), "socket");
		must(bind(selected[i], (struct sockaddr *)&address, sizeof(address)), "bind");
		must(listen(selected[i], 1), "listen");
	}
	double us = time_ns(select_tcp, 1000) / 1e3;
	for (int i = 0; i < SELECTED; i++)
		close(selected[i]);
	return us;
}

static double measure_install(void)
{
	return time_ns(install, 10000) / 1e3;
}

static double measure_handle(void)
{
	install(1);
	return time_ns(handle, 5000) / 1e3;
}

static double measure_fork(void)
{
	return time_ns(fork_exit, 20) / 1e3;
}

static double measure_exec(void)
{
	must(readlink("/proc/self/exe", own, sizeof(own) - 1), "/proc/self/exe");
	return time_ns(fork_exec, 10) / 1e3;
}

static double measure_sh(void)
{
	return time_ns(fork_sh, 6) / 1e3;
}

const struct column process_columns[] = {
	{2, "null call", "us", measure_null_call},
	{2, "null I/O", "us", measure_null_io},
	{2, "stat", "us", measure_stat},
	{2, "open clos", "us", measure_open_close},
	{2, "selct TCP", "us", measure_select},
	{2, "sig inst", "us", measure_install},
	{2, "sig hndl", "us", measure_handle},
	{2, "fork proc", "us", measure_fork},
	{2, "exec proc", "us", measure_exec},
	{2, "sh proc", "us", measure_sh},
	{0, NULL, NULL, NULL},
};
