// SPDX-License-Identifier: MIT OR Apache-2.0
// relay SOCKET KIND MS WORK_MS: threads or processes become critical by tekd one after another,
// work for WORK_MS of CPU time each, and make way for the next, for MS in all (0: two of them). It
// prints the CPU time used under a real-time policy, in ms, and tekd's replies: all of them if
// there are at most 16, else the number of refusals.
#include "tek_abi.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ANSWERS = 16, TOGETHER = 4, PAUSE_US = 5000, CHECK_US = 60000, SHORT_US = 15000 };

struct shared {
	atomic_llong critical_ns;
	atomic_int answers;
	atomic_int refused;
	int errors[MOST_ANSWERS];
};

static struct shared *shared;
static const char *path;
static long long work_ns;
static int leaves = 1, stays;
static _Thread_local int connection = -1;

static long long clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void be_connected(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (connection >= 0)
		return;
	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	while (connect(connection, (struct sockaddr *)&address, sizeof(address)))
		usleep(PAUSE_US);
}

static int ask(unsigned kind, unsigned budget_us, unsigned window_us)
{
	struct tek_request request = {.magic = TEK_REQUEST_MAGIC,
				      .version = TEK_SOCKET_VERSION,
				      .kind = (tek_u16)kind,
				      .number = 7,
				      .tid = (tek_u32)syscall(SYS_gettid),
				      .budget_us = budget_us,
				      .window_us = window_us};
	struct tek_reply reply = {0};

	be_connected();
	if (send(connection, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return EPIPE;
	do
		if (recv(connection, &reply, sizeof(reply), 0) != sizeof(reply))
			return EPIPE;
	while (reply.number != 7);
	return reply.error;
}

static int enter(unsigned budget_us, unsigned window_us)
{
	int error = ask(TEK_ASK_ENTER, budget_us, window_us);
	int number = shared->answers++;

	if (number < MOST_ANSWERS)
		shared->errors[number] = error;
	shared->refused += error != 0;
	return error;
}

static void work(void)
{
	long long begin = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = begin, last;

	while (now - begin < work_ns && sched_getscheduler(0) != SCHED_OTHER) {
		last = now;
		now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		shared->critical_ns += now - last;
	}
}

static void *iteration(void *unused)
{
	if (enter(0, 0)) {
		usleep(PAUSE_US);
	} else {
		work();
		if (leaves)
			ask(TEK_ASK_LEAVE, 0, 0);
	}
	if (!stays && connection >= 0 && leaves)
		close(connection);
	return unused;
}

static void *switch_and_stay(void *done)
{
	iteration(NULL);
	*(atomic_int *)done = 1;
	pause();
	return NULL;
}

static void next_thread(void)
{
	pthread_t thread;
	atomic_int done = 0;

	if (pthread_create(&thread, NULL, stays ? switch_and_stay : iteration, &done))
		exit(1);
	if (!stays)
		pthread_join(thread, NULL);
	while (stays && !done)
		usleep(1000);
}

static void next_process(void)
{
	pid_t child = fork();

	if (child == 0) {
		connection = -1;
		iteration(NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

// Requests a window that ends soon, once the guard has seen the use of the granted one.
static void ask_for_another(void)
{
	if (enter(0, 0)) {
		usleep(PAUSE_US);
		return;
	}
	work();
	ask(TEK_ASK_LEAVE, 0, 0);
	usleep(CHECK_US);
	enter(0, 0);
	ask(TEK_ASK_LEAVE, 0, 0);
	usleep(SHORT_US);
	enter(1000, 10000);
	usleep(2 * SHORT_US);
	ask(TEK_ASK_LEAVE, 0, 0);
}

static void *be_one_of_several(void *barrier)
{
	for (int round = 0; round < 3; round++) {
		pthread_barrier_wait(barrier);
		if (!enter(0, 0))
			work();
		pthread_barrier_wait(barrier);
		ask(TEK_ASK_LEAVE, 0, 0);
		sleep(1);
	}
	return NULL;
}

static void be_several(void)
{
	pthread_t threads[TOGETHER];
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, TOGETHER);
	for (int n = 0; n < TOGETHER; n++)
		if (pthread_create(&threads[n], NULL, be_one_of_several, &barrier))
			exit(1);
	for (int n = 0; n < TOGETHER; n++)
		pthread_join(threads[n], NULL);
}

int main(int argc, char **argv)
{
	void (*next)(void) = next_thread;
	long long end;
	int iterations = 0;

	if (argc != 5)
		return 2;
	path = argv[1];
	leaves = strncmp(argv[2], "silent", 6) != 0;
	stays = strncmp(argv[2], "staying", 7) == 0;
	work_ns = atol(argv[4]) * 1000000LL;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	// Made by the process's first thread, so that the connection does not end with a thread.
	be_connected();
	if (strstr(argv[2], "processes"))
		next = next_process;
	if (strcmp(argv[2], "asking") == 0)
		next = ask_for_another;
	end = clock_ns(CLOCK_MONOTONIC) + atol(argv[3]) * 1000000LL;
	if (strcmp(argv[2], "together") == 0)
		be_several();
	else
		while (clock_ns(CLOCK_MONOTONIC) < end || (atol(argv[3]) == 0 && iterations < 2)) {
			next();
			iterations++;
		}
	printf("%lld", shared->critical_ns / 1000000);
	if (shared->answers > MOST_ANSWERS)
		printf(" %d", shared->refused);
	for (int n = 0; n < shared->answers && shared->answers <= MOST_ANSWERS; n++)
		printf(" %d", shared->errors[n]);
	printf("\n");
	return 0;
}
