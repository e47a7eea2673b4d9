/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables 5 and 7: communication of two processes, there and back, and how much of it. */
#include "micro.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK (64u << 10)
#define BLOCKS 128

/* The ends of this process, and those of the other one. */
static int own_in, own_out, other_in, other_out, listener;
static char block[BLOCK];

static void echo(void)
{
	char byte;
	while (read(other_in, &byte, 1) == 1)
		must(write(other_out, &byte, 1), "write");
}

static void swallow(void)
{
	static char taken[BLOCK];
	while (read(other_in, taken, sizeof(taken)) > 0)
		;
}

static void there_and_back(unsigned times)
{
	char byte = 0;
	while (times--) {
		must(write(own_out, &byte, 1), "write");
		must(read(own_in, &byte, 1), "read");
	}
}

static void send_blocks(unsigned times)
{
	while (times--)
		for (size_t done = 0; done < BLOCK;)
			done += (size_t)must(write(own_out, block + done, BLOCK - done), "write");
}

static void close_all(void)
{
	int all[] = {own_in, own_out, other_in, other_out};
	for (int i = 0; i < 4; i++) {
		close(all[i]);
		for (int j = i + 1; j < 4; j++)
			if (all[j] == all[i])
				all[j] = -1;
	}
}

static double latency(void)
{
	pid_t child = start_child(echo);
	double us = time_ns(there_and_back, 1000) / 1e3;
	end_child(child);
	close_all();
	return us;
}

/* In MB/s. */
static double bandwidth(void)
{
	pid_t child = start_child(swallow);
	double ns = time_ns(send_blocks, BLOCKS);
	end_child(child);
	close_all();
	return BLOCK / ns * 1e3;
}

static void use_pipes(void)
{
	int there[2], back[2];
	must(pipe(there), "pipe");
	must(pipe(back), "pipe");
	other_in = there[0];
	own_out = there[1];
	own_in = back[0];
	other_out = back[1];
}

static void use_pair(int own, int other)
{
	own_in = own_out = own;
	other_in = other_out = other;
}

static void use_unix(void)
{
	int pair[2];
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	use_pair(pair[0], pair[1]);
}

static int bound(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = (int)must(socket(AF_INET, type, 0), "socket");

	*address = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	must(bind(fd, (struct sockaddr *)address, sizeof(*address)), "bind");
	must(getsockname(fd, (struct sockaddr *)address, &length), "getsockname");
	return fd;
}

static void use_udp(void)
{
	struct sockaddr_in own, other;
	int one = bound(SOCK_DGRAM, &own), two = bound(SOCK_DGRAM, &other);
	must(connect(one, (struct sockaddr *)&other, sizeof(other)), "connect");
	must(connect(two, (struct sockaddr *)&own, sizeof(own)), "connect");
	use_pair(one, two);
}

static void use_tcp(void)
{
	struct sockaddr_in address;
	int on = 1, server = bound(SOCK_STREAM, &address);
	must(listen(server, 1), "listen");
	int one = (int)must(socket(AF_INET, SOCK_STREAM, 0), "socket");
	must(connect(one, (struct sockaddr *)&address, sizeof(address)), "connect");
	int two = (int)must(accept(server, NULL, NULL), "accept");
	close(server);
	setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(two, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	use_pair(one, two);
}

static struct sockaddr_in served;

static void serve(void)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd >= 0)
			close(fd);
	}
}

static void connect_close(unsigned times)
{
	/* Does not leave hundreds of ports waiting. */
	struct linger at_once = {.l_onoff = 1};
	while (times--) {
		int fd = (int)must(socket(AF_INET, SOCK_STREAM, 0), "socket");
		must(connect(fd, (struct sockaddr *)&served, sizeof(served)), "connect");
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fd);
	}
}

static double measure_pipe(void)
{
	use_pipes();
	return latency();
}

static double measure_unix(void)
{
	use_unix();
	return latency();
}

static double measure_udp(void)
{
	use_udp();
	return latency();
}

static double measure_tcp(void)
{
	use_tcp();
	return latency();
}

static double measure_connect(void)
{
	listener = bound(SOCK_STREAM, &served);
	must(listen(listener, 128), "listen");
	pid_t child = start_child(serve);
	double us = time_ns(connect_close, 100) / 1e3;
	end_child(child);
	close(listener);
	return us;
}

static double measure_much_pipe(void)
{
	use_pipes();
	return bandwidth();
}

static double measure_much_unix(void)
{
	use_unix();
	return bandwidth();
}

static double measure_much_tcp(void)
{
	use_tcp();
	return bandwidth();
}

const struct column local_columns[] = {
	{5, "pipe", "us", measure_pipe},
	{5, "AF UNIX", "us", measure_unix},
	{5, "UDP", "us", measure_udp},
	{5, "TCP", "us", measure_tcp},
	{5, "TCP conn", "us", measure_connect},
	{7, "pipe", "MB/s", measure_much_pipe},
	{7, "AF UNIX", "MB/s", measure_much_unix},
	{7, "TCP", "MB/s", measure_much_tcp},
	{0, NULL, NULL, NULL},
};
