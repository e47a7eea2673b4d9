/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A typical echo server, and its clients.
 *
 *   echo server CONNECTIONS    prints its port; after so many clients have come and gone, its work
 *   echo client PORT CONNECTIONS ROUNDS
 *
 * The server's main thread waits while another thread accepts, in blocking calls, and deals the
 * connections to four threads that wait by epoll(7). The client has all its connections open at
 * once and sends a message on each of them, ROUNDS times, before it reads the replies.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 4, EVENTS = 64, MESSAGE = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_gone = PTHREAD_COND_INITIALIZER;
static int connections, gone;
static long bytes;
static int listener, sets[THREADS];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void count(int closed, long echoed)
{
	pthread_mutex_lock(&lock);
	gone += closed;
	bytes += echoed;
	if (gone == connections)
		pthread_cond_signal(&all_gone);
	pthread_mutex_unlock(&lock);
}

/* Sends all available input back; false: that was all. */
static bool echo(int connection)
{
	char message[1024];

	for (;;) {
		ssize_t got = read(connection, message, sizeof(message));
		if (got < 0 && errno == EAGAIN)
			return true;
		if (got <= 0)
			return false;
		for (ssize_t done = 0; done < got;) {
			ssize_t put = write(connection, message + done, (size_t)(got - done));
			if (put < 0 && errno != EAGAIN)
				return false;
			done += put > 0 ? put : 0;
		}
		count(0, got);
	}
}

static void *serve(void *set)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int ready = epoll_wait(*(int *)set, events, EVENTS, -1);
		if (ready < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < ready; i++) {
			if (echo(events[i].data.fd))
				continue;
			close(events[i].data.fd);
			count(1, 0);
		}
	}
	return NULL;
}

static void *take(void *unused)
{
	for (int i = 0; i < connections; i++) {
		int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
		if (connection < 0)
			die("accept4");
		struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = connection};
		if (epoll_ctl(sets[i % THREADS], EPOLL_CTL_ADD, connection, &event))
			die("epoll_ctl");
	}
	return unused;
}

static int be_server(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	pthread_t thread;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 4096) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		die("listen");
	for (int i = 0; i < THREADS; i++) {
		sets[i] = epoll_create1(0);
		if (pthread_create(&thread, NULL, serve, &sets[i]))
			die("pthread_create");
	}
	if (pthread_create(&thread, NULL, take, NULL))
		die("pthread_create");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	pthread_mutex_lock(&lock);
	while (gone < connections)
		pthread_cond_wait(&all_gone, &lock);
	printf("%d connections, %ld bytes\n", gone, bytes);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void read_all(int connection, char *message)
{
	for (ssize_t got, done = 0; done < MESSAGE; done += got)
		if ((got = read(connection, message + done, (size_t)(MESSAGE - done))) <= 0)
			die("read");
}

static int be_client(int port, int rounds)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int *all = calloc((size_t)connections, sizeof(*all));

	for (int i = 0; i < connections; i++) {
		all[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(all[i], (struct sockaddr *)&address, sizeof(address)))
			die("connect");
	}
	for (int round = 0; round < rounds; round++) {
		char sent[MESSAGE], came[MESSAGE];
		for (int step = 0; step < 2; step++) {
			for (int i = 0; i < connections; i++) {
				memset(sent, 0, sizeof(sent));
				snprintf(sent, sizeof(sent), "%d says %d", i, round);
				if (step == 0) {
					if (write(all[i], sent, MESSAGE) != MESSAGE)
						die("write");
					continue;
				}
				read_all(all[i], came);
				if (memcmp(sent, came, MESSAGE) != 0) {
					fprintf(stderr, "%s came back as %s\n", sent, came);
					return 1;
				}
			}
		}
	}
	for (int i = 0; i < connections; i++)
		close(all[i]);
	puts("all came back");
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit files;

	alarm(110);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (argc == 3 && strcmp(argv[1], "server") == 0) {
		connections = atoi(argv[2]);
		return be_server();
	}
	if (argc == 5 && strcmp(argv[1], "client") == 0) {
		connections = atoi(argv[3]);
		return be_client(atoi(argv[2]), atoi(argv[4]));
	}
	fprintf(stderr, "usage: echo server CONNECTIONS | client PORT CONNECTIONS ROUNDS\n");
	return 2;
}
