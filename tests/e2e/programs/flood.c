/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flood SOCKET KIND UID SECONDS - as this user, sends tekd as many requests of a kind as it can.
 * Some kinds are events that the kernel reports to tekd instead.  Prints the number of them.
 *
 * flood SOCKET ask UID COUNT - makes a thread critical COUNT times, every 4 ms.  Prints tekd's
 * response time in ns (median, 99th percentile), the same of a server that uses as much CPU time
 * (at SOCKET with ".echo" behind it), and the number of refused requests.
 *
 * flood SOCKET echo UID 0 - is that server.
 *
 * flood SOCKET echo UID GROUP:GROUP - the same, but with each reply it also moves a process
 * between these control groups.
 *
 * flood SOCKET hold UID COUNT - makes COUNT threads critical and prints how many are.  Ends with
 * its input.
 */
#define _GNU_SOURCE
#include "tek_abi.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PACE_NS 4000000
#define CONNECTIONS 8

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int64_t end_ns;

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int connected_to(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct timeval patience = {.tv_sec = 20};
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience))
		err(1, "socket");
	if (connect(fd, (const struct sockaddr *)address, sizeof *address)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int connected(void)
{
	return connected_to(&address);
}

static struct tek_request request(int kind, int tid)
{
	static uint32_t number;
	return (struct tek_request){
		.magic = TEK_REQUEST_MAGIC,
		.version = TEK_SOCKET_VERSION,
		.kind = (uint16_t)kind,
		.number = ++number,
		.tid = (uint32_t)tid,
	};
}

/* The error of the reply; -1 if tekd has closed the connection. */
static int ask(int fd, int kind, int tid)
{
	struct tek_request sent = request(kind, tid);
	struct tek_reply reply;
	if (send(fd, &sent, sizeof sent, MSG_NOSIGNAL) != sizeof sent)
		return -1;
	do {
		if (recv(fd, &reply, sizeof reply, 0) != sizeof reply)
			return -1;
	} while (reply.number != sent.number);
	return reply.error;
}

/* Several connections, on which requests are sent without waiting for the replies. */
static long ask_without_end(int kind)
{
	int fds[CONNECTIONS];
	long count = 0;
	memset(fds, -1, sizeof fds);
	while (now_ns() < end_ns) {
		for (int n = 0; n < CONNECTIONS; n++) {
			int tid = kind == TEK_ASK_HELLO || kind == TEK_ASK_STATUS ? 0 : gettid();
			struct tek_request sent = request(kind, tid);
			char reply[256];
			if (fds[n] < 0)
				fds[n] = connected();
			while (recv(fds[n], reply, sizeof reply, MSG_DONTWAIT) > 0)
				;
			if (send(fds[n], &sent, sizeof sent, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
				count++;
			} else if (errno != EAGAIN) {
				close(fds[n]);
				fds[n] = -1;
			}
		}
	}
	return count;
}

static long connect_without_end(int length)
{
	long count = 0;
	for (; now_ns() < end_ns; count++) {
		struct tek_request sent = request(TEK_ASK_HELLO, 0);
		int fd = connected();
		if (fd < 0)
			continue;
		if (length > 0)
			send(fd, &sent, (size_t)length, MSG_NOSIGNAL);
		close(fd);
	}
	return count;
}

static long keep_connections(void)
{
	static int fds[1000];
	long count = 0;
	for (; count < 1000 && now_ns() < end_ns; count++)
		fds[count] = connected();
	while (now_ns() < end_ns)
		usleep(10000);
	return count;
}

static int nothing(void *unused)
{
	(void)unused;
	return 0;
}

/* One process after another: a child, a child that executes a program, or a sibling. */
static long breed_without_end(const char *kind)
{
	static char stack[16384];
	long count = 0;
	for (; now_ns() < end_ns; count++) {
		int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
		if (!strcmp(kind, "exec")) {
			pid_t child = vfork();
			if (child == 0) {
				execl("/bin/true", "true", NULL);
				_exit(1);
			}
		} else {
			clone(nothing, stack + sizeof stack,
			      flags | (strcmp(kind, "sibling") ? 0 : CLONE_PARENT), NULL);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	return count;
}

/* Siblings are children of this process, which does not wait for them. */
static void be_parent(void)
{
	signal(SIGCHLD, SIG_IGN);
	if (fork()) {
		while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
			;
		exit(0);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void *end_at_once(void *unused)
{
	return unused;
}

static long make_threads_without_end(void)
{
	long count = 0;
	for (; now_ns() < end_ns; count++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return count;
}

static long change_user_without_end(uid_t uid)
{
	long count = 0;
	for (; now_ns() < end_ns; count += 2)
		if (syscall(SYS_setresuid, -1, uid + 1000, -1) ||
		    syscall(SYS_setresuid, -1, uid, -1))
			err(1, "setresuid");
	return count;
}

static long switch_without_end(void)
{
	int fd = connected();
	long count = 0;
	while (now_ns() < end_ns) {
		if (ask(fd, TEK_ASK_ENTER, gettid()) < 0 || ask(fd, TEK_ASK_LEAVE, gettid()) < 0) {
			close(fd);
			fd = connected();
		}
		count++;
	}
	return count;
}

/* Children that inherit what tekd gives this process. */
static long breed_heirs_without_end(void)
{
	int fd = connected();
	ask(fd, TEK_ASK_HELLO, 0);
	return breed_without_end("fork");
}

static int critical_tid;
static pthread_barrier_t born;

static void *sleeper(void *unused)
{
	critical_tid = gettid();
	pthread_barrier_wait(&born);
	for (;;)
		pause();
	return unused;
}

static int new_sleeper(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_barrier_init(&born, NULL, 2);
	if (pthread_create(&thread, &attr, sleeper, NULL))
		errx(1, "no thread");
	pthread_barrier_wait(&born);
	return critical_tid;
}

static int compare(const void *one, const void *other)
{
	int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
	return (a > b) - (a < b);
}

static struct sockaddr_un echo_address(void)
{
	struct sockaddr_un echo = address;
	strncat(echo.sun_path, ".echo", sizeof echo.sun_path - strlen(echo.sun_path) - 1);
	return echo;
}

static int64_t used_ns(void)
{
	struct timespec used;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000000000LL + used.tv_nsec;
}

/* The process that an echo moves from one group to the other. */
static pid_t moved;
static int lists[2] = {-1, -1}; /* of processes, of the groups */

static void open_groups(char *groups)
{
	char path[512], *second = strchr(groups, ':');
	if (!second)
		return;
	*second++ = 0;
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/cgroup.procs", i ? second : groups);
		lists[i] = open(path, O_WRONLY | O_CLOEXEC);
		if (lists[i] < 0)
			err(1, "%s", path);
	}
	moved = fork();
	if (moved == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
		for (;;)
			pause();
	}
}

static void move_once(void)
{
	static int iteration;
	if (moved && dprintf(lists[iteration = !iteration], "%d", moved) < 0)
		err(1, "cannot move a process");
}

/* The field of the thread's id has the CPU time to use for the reply, in ns. */
static void serve_echo(int listener)
{
	int fd;
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		struct tek_reply reply = {0};
		struct tek_request received;
		while (recv(fd, &received, sizeof received, 0) == sizeof received) {
			int64_t end = used_ns() + received.tid;
			reply.number = received.number;
			move_once();
			while (used_ns() < end)
				;
			send(fd, &reply, sizeof reply, MSG_NOSIGNAL);
		}
		close(fd);
	}
}

static int64_t median_of_some(int fd, int tid)
{
	int64_t took[20];
	for (int n = 0; n < 20; n++) {
		int64_t before = now_ns();
		ask(fd, TEK_ASK_ENTER, tid);
		took[n] = now_ns() - before;
		ask(fd, TEK_ASK_LEAVE, tid);
	}
	qsort(took, 20, sizeof *took, compare);
	return took[10];
}

static void print_quantiles(int64_t *took, int count)
{
	qsort(took, (size_t)count, sizeof *took, compare);
	printf("%lld %lld ", (long long)took[count / 2], (long long)took[count - 1 - count / 100]);
}

static void measure(int count)
{
	int64_t *took = calloc((size_t)count, sizeof *took);
	int64_t *echo_took = calloc((size_t)count, sizeof *took);
	struct sockaddr_un at = echo_address();
	int fd = connected(), echo = connected_to(&at), tid = new_sleeper(), refused = 0;
	int hello = ask(fd, TEK_ASK_HELLO, 0);
	if (hello || echo < 0)
		errx(1, "nothing is granted, or there is no echo: %s", strerror(hello));
	int usual_ns = (int)median_of_some(fd, tid);
	for (int n = 0; n < count; n++) {
		struct timespec pace = {.tv_nsec = PACE_NS};
		int64_t before = now_ns();
		refused += ask(fd, TEK_ASK_ENTER, tid) != 0;
		took[n] = now_ns() - before;
		ask(fd, TEK_ASK_LEAVE, tid);
		nanosleep(&pace, NULL);
		before = now_ns();
		ask(echo, TEK_ASK_HELLO, usual_ns);
		echo_took[n] = now_ns() - before;
	}
	print_quantiles(took, count);
	print_quantiles(echo_took, count);
	printf("%d\n", refused);
}

static void hold(int count)
{
	int fd = connected(), held = 0;
	ask(fd, TEK_ASK_HELLO, 0);
	for (int n = 0; n < count; n++)
		held += ask(fd, TEK_ASK_ENTER, new_sleeper()) == 0;
	printf("%d\n", held);
	fflush(stdout);
	char end;
	while (read(0, &end, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		errx(2, "usage: flood SOCKET KIND UID SECONDS");
	const char *kind = argv[2];
	uid_t uid = (uid_t)atoi(argv[3]);
	strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
	/* Without it the process could become real-time by a right of its own. */
	setrlimit(RLIMIT_RTPRIO, &(struct rlimit){0, 0});
	bool is_two = !strcmp(kind, "user");
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) ||
	    setresuid(uid, uid, is_two ? uid + 1000 : uid))
		err(1, "cannot become user %u", uid);
	alarm(300);
	if (!strcmp(kind, "echo")) {
		struct sockaddr_un at = echo_address();
		int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		unlink(at.sun_path);
		if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 8))
			err(1, "cannot serve at %s", at.sun_path);
		chmod(at.sun_path, 0666);
		open_groups(argv[4]);
		puts("ready");
		fflush(stdout);
		serve_echo(listener);
	}
	if (!strcmp(kind, "ask") || !strcmp(kind, "hold")) {
		(kind[0] == 'a' ? measure : hold)(atoi(argv[4]));
		return 0;
	}
	if (!strcmp(kind, "sibling"))
		be_parent();
	end_ns = now_ns() + (int64_t)(atof(argv[4]) * 1e9);
	puts("ready");
	fflush(stdout);
	long count = !strcmp(kind, "hello")       ? ask_without_end(TEK_ASK_HELLO)
		     : !strcmp(kind, "enter")     ? ask_without_end(TEK_ASK_ENTER)
		     : !strcmp(kind, "status")    ? ask_without_end(TEK_ASK_STATUS)
		     : !strcmp(kind, "explain")   ? ask_without_end(TEK_ASK_EXPLAIN)
		     : !strcmp(kind, "group")     ? ask_without_end(TEK_ASK_GROUP)
		     : !strcmp(kind, "nonsense")  ? ask_without_end(77)
		     : !strcmp(kind, "connect")   ? connect_without_end(0)
		     : !strcmp(kind, "reconnect") ? connect_without_end(sizeof(struct tek_request))
		     : !strcmp(kind, "half")      ? connect_without_end(5)
		     : !strcmp(kind, "keep")      ? keep_connections()
		     : !strcmp(kind, "threads")   ? make_threads_without_end()
		     : !strcmp(kind, "user")      ? change_user_without_end(uid)
		     : !strcmp(kind, "switch")    ? switch_without_end()
						  : breed_without_end(kind);
	printf("%ld\n", count);
	return 0;
}
