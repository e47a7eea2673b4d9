/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * switcher SOCKET SEED [POLICY PRIORITY NICE] - three threads that become time-critical and normal
 * again as fast as they can, asked for on the daemon's socket, fork, and now and then execute this
 * program anew.  Without a daemon they wait for it.  They begin with the scheduling that is given.
 */
#include "tek_abi.h"

#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define LIMIT_S 600
#define CHILD_LIMIT_S 2
#define PAUSE_US 2000

/* Of so many switches one forks, and one executes. */
#define SELDOM 40

static char **arguments;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static bool is_answered(int fd, unsigned short kind, int priority)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC,
				      .version = TEK_SOCKET_VERSION,
				      .kind = kind,
				      .number = 1,
				      .tid = (tek_u32)syscall(SYS_gettid),
				      .priority = priority};
	struct tek_reply reply;

	if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return false;
	do
		if (recv(fd, &reply, sizeof(reply), 0) <= 0)
			return false;
	while (!reply.number);
	return true;
}

static void become_another(unsigned *seed)
{
	switch (rand_r(seed) % SELDOM) {
	case 0:
		if (fork() == 0) {
			signal(SIGALRM, SIG_DFL);
			alarm(CHILD_LIMIT_S);
			for (;;)
				pause();
		}
		break;
	case 1:
		arguments[3] = NULL; /* it has its scheduling already */
		execv("/proc/self/exe", arguments);
	}
}

static void converse(int fd, unsigned *seed)
{
	while (is_answered(fd, TEK_ASK_ENTER, rand_r(seed) % 40 - 20)) {
		usleep((useconds_t)rand_r(seed) % 300);
		become_another(seed);
		if (rand_r(seed) % 4 && !is_answered(fd, TEK_ASK_LEAVE, 0))
			return;
	}
}

static void *live(void *unused)
{
	unsigned seed = (unsigned)(atoi(arguments[2]) + (int)syscall(SYS_gettid));

	for (;; usleep(PAUSE_US)) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
			converse(fd, &seed);
		close(fd);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if ((argc != 3 && argc != 6) || strlen(argv[1]) >= sizeof(address.sun_path))
		errx(2, "usage: switcher SOCKET SEED [POLICY PRIORITY NICE]");
	arguments = argv;
	signal(SIGCHLD, SIG_IGN);
	alarm(LIMIT_S);
	strcpy(address.sun_path, argv[1]);
	if (argc > 3) {
		struct sched_param param = {.sched_priority = atoi(argv[4])};
		if (sched_setscheduler(0, atoi(argv[3]), &param) ||
		    setpriority(PRIO_PROCESS, 0, atoi(argv[5])))
			err(EXIT_FAILURE, "cannot take policy %s", argv[3]);
	}
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, live, NULL))
			errx(EXIT_FAILURE, "cannot start a thread");
	live(NULL);
}
