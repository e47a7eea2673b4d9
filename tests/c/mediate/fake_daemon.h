/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A daemon for tests: a process of its own, which runs as root, answers on a socket in a
 * directory of its own, really switches threads, and misbehaves as it is told.
 */
#ifndef TEK_TESTS_FAKE_DAEMON_H
#define TEK_TESTS_FAKE_DAEMON_H

#include "support.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

enum conduct {
	GRANTS,
	GRANTS_A_LIMIT,
	REFUSES_ALL,    /* at HELLO */
	REFUSES_MORE,   /* at ENTER */
	IS_SILENT,      /* from ENTER or GROUP on */
	IS_DEAF,        /* does not even accept */
	SENDS_NONSENSE, /* from here on: at ENTER */
	CUTS_SHORT,
	MISCOUNTS,
	IS_TOO_NEW,
	EXAGGERATES, /* a real-time priority that does not exist */
	DIES,
	DIES_AFTERWARDS, /* once it has made the switch */
	DIES_AT_LEAVE,
};

enum { MAX_CONNECTIONS = 16, MAX_KINDS = 16, MAX_FAST = 128 };

/* In memory that test and daemon share. */
struct fake_daemon {
	atomic_int conduct;
	atomic_uint connections;         /* so far */
	atomic_uint open_connections;    /* now */
	atomic_uint requests[MAX_KINDS]; /* so far, by kind */
	atomic_int delay_ms;             /* before each answer */
	atomic_int priority;             /* of the last ENTER */
	atomic_ullong until_ns;          /* likewise */
	atomic_uint budget_us, window_us;
	atomic_int group, group_tid; /* of the last GROUP */
	atomic_int group_error;      /* to the next ones */
	atomic_int take_back, error; /* a thread to be taken back, and why; then it is 0 */
	atomic_bool restart;         /* close everything and begin anew; then it is false */
	char directory[64], path[96];
};

static struct fake_daemon *fake;
static pid_t fake_pid;

struct fake_fast {
	int connection;
	pid_t tid;
	uint64_t until_ns;
	int later_priority; /* 0: it leaves then */
};

static struct fake_fast fake_fast[MAX_FAST];
static struct pollfd fake_polled[1 + MAX_CONNECTIONS];
static nfds_t fake_polled_count;

static inline uint64_t fake_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline int fake_switch(pid_t tid, int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};
	return syscall(SYS_sched_setscheduler, tid, policy, &param) ? errno : 0;
}

static inline int fake_enter(int connection, pid_t tid, int priority, uint64_t until_ns,
			     int later_priority)
{
	int error = fake_switch(tid, SCHED_RR | SCHED_RESET_ON_FORK, priority);
	struct fake_fast *free = NULL;

	for (int i = 0; i < MAX_FAST; i++)
		if (fake_fast[i].tid == tid || (!free && !fake_fast[i].tid))
			free = &fake_fast[i];
	if (!error && free)
		*free = (struct fake_fast){connection, tid, until_ns, later_priority};
	return error;
}

/* As tekd does: policy, and the reset-on-fork flag that only it may clear. */
static inline void fake_leave(struct fake_fast *fast)
{
	fake_switch(fast->tid, SCHED_OTHER, 0);
	*fast = (struct fake_fast){0};
}

static inline void fake_leave_all(int connection)
{
	for (int i = 0; i < MAX_FAST; i++)
		if (fake_fast[i].tid && (connection < 0 || fake_fast[i].connection == connection))
			fake_leave(&fake_fast[i]);
}

static inline void fake_notify_left(struct fake_fast *fast, int error)
{
	struct tek_reply notice = {
		.magic = TEK_REPLY_MAGIC,
		.version = TEK_SOCKET_VERSION,
		.kind = TEK_TELL_LEFT,
		.tid = (tek_u32)fast->tid,
		.error = error,
		.value = {110000000, 100000000},
		.text = "the configuration was changed",
	};
	int connection = fast->connection;

	fake_leave(fast);
	send(connection, &notice, sizeof(notice), MSG_NOSIGNAL);
}

static inline void fake_refuse(struct tek_reply *reply, int error, const char *why)
{
	reply->error = error;
	strcpy((char *)reply->text, why);
}

static inline void fake_hello(const struct ucred *subject, struct tek_reply *reply)
{
	reply->value[0] = TEK_GRANT_SWITCH;
	if (fake->conduct == REFUSES_ALL)
		fake_refuse(reply, EPERM, "uid 54321 is in no [[grant]]\033[2J");
	/* Raising its limit needs CAP_SYS_RESOURCE; this has it help itself. */
	if (fake->conduct == GRANTS_A_LIMIT && kill(subject->pid, SIGUSR1) == 0)
		reply->value[0] = TEK_GRANT_LIMIT;
}

static inline void fake_misbehave(const struct tek_request *request, struct tek_reply *reply)
{
	switch (atomic_load(&fake->conduct)) {
	case REFUSES_MORE:
		fake_refuse(reply, EAGAIN, "8 threads of this process are critical already");
		break;
	case SENDS_NONSENSE:
		memset(reply, 0xa5, sizeof(*reply));
		break;
	case MISCOUNTS:
		reply->number = request->number + 1;
		break;
	case IS_TOO_NEW:
		reply->version++;
		break;
	case EXAGGERATES:
		reply->rt_priority = 4711;
		break;
	case DIES:
		_exit(0);
	default:
		break;
	}
}

static inline void fake_answer(int connection, const struct tek_request *request,
			       const struct ucred *subject)
{
	struct tek_reply reply = {
		.magic = TEK_REPLY_MAGIC,
		.version = TEK_SOCKET_VERSION,
		.kind = request->kind,
		.number = request->number,
		.tid = request->tid,
	};
	size_t length = sizeof(reply);

	fake->requests[request->kind % MAX_KINDS]++;
	if (fake->delay_ms)
		sleep_ms((unsigned int)fake->delay_ms);
	if (request->kind == TEK_ASK_HELLO)
		fake_hello(subject, &reply);
	if (request->kind == TEK_ASK_ENTER) {
		fake->priority = request->priority;
		fake->until_ns = request->until_ns;
		fake->budget_us = request->budget_us;
		fake->window_us = request->window_us;
		reply.rt_priority = (tek_u32)(29 - request->priority);
		if (request->flags & TEK_ASK_THEN)
			reply.value[0] = (tek_u64)(29 - request->then_priority);
		fake_misbehave(request, &reply);
		if (fake->conduct == GRANTS || fake->conduct >= DIES_AFTERWARDS)
			reply.error = fake_enter(connection, (pid_t)request->tid,
						 (int)reply.rt_priority, request->until_ns,
						 (int)reply.value[0]);
		if (fake->conduct == DIES_AFTERWARDS)
			_exit(0);
		if (fake->conduct == IS_SILENT)
			return;
		if (fake->conduct == CUTS_SHORT)
			length = 13;
	}
	if (request->kind == TEK_ASK_LEAVE && fake->conduct == DIES_AT_LEAVE)
		_exit(0);
	if (request->kind == TEK_ASK_LEAVE)
		for (int i = 0; i < MAX_FAST; i++)
			if (fake_fast[i].tid == (pid_t)request->tid)
				fake_leave(&fake_fast[i]);
	if (request->kind == TEK_ASK_GROUP) {
		fake->group = (int)request->group;
		fake->group_tid = (int)request->tid;
		if (fake->group_error)
			fake_refuse(&reply, fake->group_error, "no [[grant]] is for it");
		if (fake->conduct == IS_SILENT)
			return;
	}
	send(connection, &reply, length, MSG_NOSIGNAL);
}

/* False: the connection has ended. */
static inline bool fake_serve(int connection)
{
	struct tek_request request;
	struct ucred subject;
	socklen_t bytes = sizeof(subject);

	if (recv(connection, &request, sizeof(request), 0) != sizeof(request) ||
	    request.magic != TEK_REQUEST_MAGIC ||
	    getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &subject, &bytes))
		return false;
	fake_answer(connection, &request, &subject);
	return true;
}

static inline void fake_listen(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, fake->path);
	unlink(fake->path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || chmod(fake->path, 0666) ||
	    listen(fd, fake->conduct == IS_DEAF ? 0 : 64))
		_exit(1);
	fake_polled[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	fake_polled_count = 1;
}

static inline void fake_hang_up(nfds_t number)
{
	fake_leave_all(fake_polled[number].fd);
	close(fake_polled[number].fd);
	fake_polled[number] = fake_polled[--fake_polled_count];
	fake->open_connections--;
}

static inline void fake_do_as_asked(void)
{
	for (int i = 0; i < MAX_FAST; i++) {
		const bool is_over = fake_fast[i].until_ns && fake_fast[i].until_ns <= fake_now();
		if (is_over && fake_fast[i].later_priority) {
			fake_switch(fake_fast[i].tid, SCHED_RR | SCHED_RESET_ON_FORK,
				    fake_fast[i].later_priority);
			fake_fast[i].until_ns = 0;
		} else if (is_over) {
			fake_notify_left(&fake_fast[i], ETIME);
		}
		if (fake->take_back && fake_fast[i].tid == fake->take_back) {
			fake_notify_left(&fake_fast[i], fake->error);
			fake->take_back = 0;
		}
	}
	if (!fake->restart)
		return;
	while (fake_polled_count > 1)
		fake_hang_up(1);
	close(fake_polled[0].fd);
	fake_listen();
	fake->restart = false;
}

static inline void fake_main(int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fake_listen();
	close(ready);
	for (;;) {
		poll(fake_polled, fake->conduct == IS_DEAF ? 0 : fake_polled_count, 2);
		fake_do_as_asked();
		for (nfds_t i = fake_polled_count; i-- > 1;)
			if (fake_polled[i].revents && !fake_serve(fake_polled[i].fd))
				fake_hang_up(i);
		if (fake->conduct == IS_DEAF || !(fake_polled[0].revents & POLLIN) ||
		    fake_polled_count > MAX_CONNECTIONS)
			continue;
		fake->connections++;
		fake->open_connections++;
		fake_polled[fake_polled_count++] = (struct pollfd){
			.fd = accept4(fake_polled[0].fd, NULL, NULL, SOCK_CLOEXEC),
			.events = POLLIN,
		};
	}
}

/* Start it, behaving so; then fake->path is its socket. */
static inline void fake_start(enum conduct conduct)
{
	char directory[] = "/tmp/tek-daemon-XXXXXX";
	int ready[2];
	char byte;

	fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(fake != MAP_FAILED);
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chmod(directory, 0755), 0);
	strcpy(fake->directory, directory);
	snprintf(fake->path, sizeof(fake->path), "%s/tekd", directory);
	fake->conduct = conduct;
	assert_int_equal(pipe(ready), 0);
	fflush(NULL);
	fake_pid = fork();
	assert_true(fake_pid >= 0);
	if (fake_pid == 0) {
		close(ready[0]);
		fake_main(ready[1]);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
}

static inline void fake_stop(void)
{
	kill(fake_pid, SIGKILL);
	waitpid(fake_pid, NULL, 0);
	unlink(fake->path);
	assert_int_equal(rmdir(fake->directory), 0);
	munmap(fake, sizeof(*fake));
}

#endif
