/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The library's end of the socket to tekd: the daemon sends any bytes and closes at any time. */
#include "base/descriptor.h"
#include "base/parse.h"
#include "mediate/config.h"
#include "mediate/connection.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_PACKET = 300 };

static int listening = -1;
static unsigned int number; /* of the last request, as connection.c counts */

pid_t tek__pid(void)
{
	return getpid();
}

/* Nothing is reported here. */
void tek__report_bad_option(const char *name, const char *text)
{
	(void)name;
	(void)text;
}

static char directory[] = "/tmp/tek-fuzz-XXXXXX";

static void clear_up(void)
{
	unlink(tek__config.socket);
	rmdir(directory);
}

static void listen_somewhere(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listening < 0 || !mkdtemp(directory))
		abort();
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", directory);
	strcpy(tek__config.socket, address.sun_path);
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, 4))
		abort();
	atexit(clear_up);
}

/* The bits of the first byte make fields of a packet right, so that the rest is read at all. */
static void make_right(uint8_t how, uint8_t *packet)
{
	struct tek_reply *reply = (void *)packet;

	if (how & 1)
		reply->magic = TEK_REPLY_MAGIC;
	if (how & 2)
		reply->version = TEK_SOCKET_VERSION;
	if (how & 4)
		reply->number = number + 1;
	if (how & 8)
		reply->number = 0;
	if (how & 16)
		reply->kind = how & 4 ? TEK_ASK_ENTER : TEK_TELL_LEFT;
	if (how & 32)
		reply->kind = TEK_TELL_REFUSED;
}

/* Packets: a byte as above, one for the length (of most that of a reply), and the content. */
static void print(int daemon, const uint8_t *data, size_t size)
{
	while (size >= 2) {
		_Alignas(struct tek_reply) uint8_t packet[MOST_PACKET] = {0};
		size_t length = data[0] & 64 ? sizeof(struct tek_reply) : data[1];
		size_t given = size - 2 < length ? size - 2 : length;

		memcpy(packet, data + 2, given);
		make_right(data[0], packet);
		send(daemon, packet, length, MSG_NOSIGNAL | MSG_DONTWAIT);
		data += 2 + given;
		size -= 2 + given;
	}
}

static void reported(const struct tek_reply *reply)
{
	if (reply->kind != TEK_TELL_LEFT || reply->number || reply->magic != TEK_REPLY_MAGIC ||
	    reply->version != TEK_SOCKET_VERSION)
		abort();
	tek__connection_note_why(reply);
}

static void check_why(void)
{
	const char *why = tek__connection_why();

	if (strlen(why) >= sizeof(((struct tek_reply *)0)->text))
		abort();
	for (; *why; why++)
		if (iscntrl((unsigned char)*why))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tek_request request = {.tid = 1};
	struct tek_reply reply;

	if (listening < 0)
		listen_somewhere();
	if (size < 1)
		return 0;
	/* Clears an earlier timeout, after which the library would not connect for a while. */
	tek__connection_forget();
	if (!tek__connection_open()) {
		fprintf(stderr, "no connection: %s (%s)\n", tek__connection_why(), strerror(errno));
		abort();
	}
	int daemon = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	if (daemon < 0)
		abort();
	print(daemon, data + 1, size - 1);
	if (data[0] & 1)
		tek__connection_listen(reported);
	/* The library never waits for it: all of its bytes are sent. */
	if (data[0] & 2)
		shutdown(daemon, SHUT_WR);
	else
		close(daemon);
	errno = E2BIG;
	for (int i = 0; i < 3 && tek__connection(); i++) {
		number++;
		bool answered = tek__connection_ask(TEK_ASK_ENTER, &request, &reply, reported);
		if (answered && (reply.kind != TEK_ASK_ENTER || reply.number != number))
			abort();
		if (answered)
			tek__connection_note_why(&reply);
		else if (tek__connection())
			abort();
		check_why();
	}
	tek__connection_listen(reported);
	if (errno != E2BIG)
		abort();
	check_why();
	tek__connection_close("");
	if (data[0] & 2)
		close(daemon);
	return 0;
}
