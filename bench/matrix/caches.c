/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows in which touch asks redis or memcached, which have protocols of lines. */
#include "row.h"
#include "server.h"

#include "../response/clock.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* About PART_MS of redis's CPU time. */
#define SORTED 10000

/* As many as a page of the web needs. */
#define FETCHED 100
#define VALUE_BYTES 1024

static int server;

static int connect_when_it_listens(const struct server *of, const char *program)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t begin = clock_ns();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		err(EXIT_FAILURE, "cannot make a socket");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", of->socket);
	while (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		if (!server_await(begin))
			err(EXIT_FAILURE, "%s does not listen", program);
	}
	return fd;
}

static void ask(const char *question)
{
	size_t length = strlen(question);
	if (send(server, question, length, MSG_NOSIGNAL) != (ssize_t)length)
		err(EXIT_FAILURE, "cannot ask a server");
}

/* Reads until the server has sent this end of its answer. */
static void answer_read(const char *end)
{
	static char answer[256 * 1024];
	size_t length = strlen(end), have = 0;
	while (have < length || memcmp(answer + have - length, end, length)) {
		ssize_t got = read(server, answer + have, sizeof(answer) - have);
		if (got <= 0)
			err(EXIT_FAILURE, "a server sent no answer");
		have += (size_t)got;
	}
}

static void redis_prepare(void)
{
	const struct server *redis = server_prepare();
	char command[64];
	server_start((const char *[]){"redis-server", "--port", "0", "--save", "", "--dir",
				      redis->directory, "--unixsocket", redis->socket, NULL});
	server = connect_when_it_listens(redis, "redis-server");
	server_hide();
	for (int i = 0; i < SORTED; i++) {
		/* In an order that sorting has to change. */
		snprintf(command, sizeof(command), "RPUSH numbers %d\r\n", i * 7 % SORTED);
		ask(command);
		answer_read("\r\n");
	}
}

static void redis_wait(void)
{
	char end[16];
	snprintf(end, sizeof(end), "%d\r\n", SORTED - 1);
	ask("SORT numbers LIMIT 0 1 DESC\r\n");
	answer_read(end);
}

static void memcached_prepare(void)
{
	const struct server *memcached = server_prepare();
	char command[VALUE_BYTES + 64], value[VALUE_BYTES + 1];
	server_start((const char *[]){"memcached", "-s", memcached->socket, "-u", "root", NULL});
	server = connect_when_it_listens(memcached, "memcached");
	server_hide();
	memset(value, 'x', VALUE_BYTES);
	value[VALUE_BYTES] = 0;
	for (int i = 0; i < FETCHED; i++) {
		snprintf(command, sizeof(command), "set key%d 0 0 %d\r\n%s\r\n", i, VALUE_BYTES,
			 value);
		ask(command);
		answer_read("STORED\r\n");
	}
}

static void memcached_wait(void)
{
	char command[FETCHED * 8 + 8] = "get";
	size_t length = strlen(command);
	for (int i = 0; i < FETCHED; i++)
		length += (size_t)snprintf(command + length, sizeof(command) - length, " key%d", i);
	snprintf(command + length, sizeof(command) - length, "\r\n");
	ask(command);
	answer_read("END\r\n");
}

const struct row cache_rows[] = {
	{.name = "redis", .prepare = redis_prepare, .wait = redis_wait},
	{.name = "memcached", .prepare = memcached_prepare, .wait = memcached_wait},
	{.name = NULL},
};
