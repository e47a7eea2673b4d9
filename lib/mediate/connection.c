/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/connection.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "mediate/config.h"
#include "threads/process.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_NS TEK_NS_PER_SEC
#define SILENCE_NS (10 * TEK_NS_PER_SEC)

enum { MOST_AT_ONCE = 256 }; /* that are taken unasked: a flood must not hold the lock */

static int fd = -1;
static struct tek_file_identity file;
static unsigned int opened;      /* connections so far */
static unsigned int requests;    /* requests so far: their numbers */
static uint64_t silent_until_ns; /* CLOCK_MONOTONIC */
static char why[sizeof(((struct tek_reply *)0)->text)];

static const char silence[] = "it does not answer";
static const char something_else[] = "what listens at its socket is something else";
static const char other_version[] = "it is of another version than libtek";

/* The state of the caller that each call here preserves. */
struct caller {
	int error, cancellation;
};

static struct caller begin(void)
{
	struct caller caller = {.error = errno};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller.cancellation);
	return caller;
}

static void end(struct caller caller)
{
	pthread_setcancelstate(caller.cancellation, NULL);
	errno = caller.error;
}

static void forget(void)
{
	/* Where the program has a file of its own by now, that is not to be closed. */
	if (fd >= 0 && tek__descriptor_is(fd, file))
		close(fd);
	fd = -1;
}

static void forget_because(const char *reason)
{
	forget();
	strcpy(why, reason);
}

void tek__connection_note_why(const struct tek_reply *reply)
{
	/* Made safe for a terminal, as the text may come from any process. */
	for (size_t i = 0; i < sizeof(why) - 1; i++)
		why[i] = iscntrl(reply->text[i]) && reply->text[i] ? '?' : (char)reply->text[i];
	why[sizeof(why) - 1] = '\0';
}

unsigned int tek__connection(void)
{
	return fd < 0 ? 0 : opened;
}

bool tek__connection_is_open(void)
{
	int saved = errno;

	if (fd >= 0 && !tek__descriptor_is(fd, file))
		forget_because("the program closed the connection to it");
	errno = saved;
	return fd >= 0;
}

/* Connecting, sending and receiving all end after the time that the socket is given. */
static int new_socket(void)
{
	const struct timeval wait = {.tv_sec = WAIT_NS / TEK_NS_PER_SEC};
	int new = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (new < 0)
		return -1;
	new = tek__descriptor_move_up(new);
	if (tek__descriptor_file(new, &file) &&
	    setsockopt(new, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
	    setsockopt(new, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0)
		return new;
	close(new);
	return -1;
}

/* A signal ends the wait, but not the time for it. */
static bool was_interrupted(uint64_t deadline_ns)
{
	/* A handler that forked: in its child this is the parent's conversation. */
	return errno == EINTR && getpid() == tek__pid() && tek__now(CLOCK_MONOTONIC) < deadline_ns;
}

static bool has_timed_out(void)
{
	return errno == EAGAIN || errno == EINPROGRESS || errno == EINTR;
}

static void is_silent(void)
{
	silent_until_ns = tek__now(CLOCK_MONOTONIC) + SILENCE_NS;
	forget_because(silence);
}

static bool connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t deadline_ns = tek__now(CLOCK_MONOTONIC) + WAIT_NS;
	int result;

	if (deadline_ns - WAIT_NS < silent_until_ns) {
		strcpy(why, silence);
		return false;
	}
	why[0] = '\0';
	fd = new_socket();
	if (fd < 0)
		return false;
	opened++;
	memcpy(address.sun_path, path, strlen(path) + 1);
	do
		result = connect(fd, (const struct sockaddr *)&address, sizeof(address));
	while (result && was_interrupted(deadline_ns));
	if (result == 0)
		return true;
	if (has_timed_out())
		is_silent();
	else
		forget_because(errno == EACCES || errno == EPERM ? "its socket is not for this user"
								 : "");
	return false;
}

bool tek__connection_open(void)
{
	if (fd >= 0)
		return true;
	if (!tek__config.socket[0])
		return false;
	struct caller caller = begin();
	bool connected = connect_to(tek__config.socket);
	end(caller);
	return connected;
}

void tek__connection_close(const char *reason)
{
	int saved = errno;
	forget_because(reason);
	errno = saved;
}

/* The next packet, if it is one of tekd's; else the connection is lost. */
static bool receive(struct tek_reply *reply, uint64_t deadline_ns, int flags)
{
	ssize_t length;

	do
		length = recv(fd, reply, sizeof(*reply), flags | MSG_TRUNC | MSG_NOSIGNAL);
	while (length < 0 && was_interrupted(deadline_ns));
	if (length < 0 && flags & MSG_DONTWAIT && has_timed_out())
		return false; /* nothing there */
	if (length < 0 && has_timed_out())
		is_silent();
	else if (length <= 0)
		forget_because("it ended");
	else if (length != sizeof(*reply) || reply->magic != TEK_REPLY_MAGIC)
		forget_because(something_else);
	else if (reply->version != TEK_SOCKET_VERSION)
		forget_because(other_version);
	else
		return true;
	return false;
}

static bool is_notice(const struct tek_reply *reply)
{
	return reply->kind == TEK_TELL_LEFT && reply->number == 0;
}

/* Reads until the reply comes. NOTICEs may precede it. */
static bool await(const struct tek_request *request, struct tek_reply *reply,
		  tek_notified *notified)
{
	uint64_t deadline_ns = tek__now(CLOCK_MONOTONIC) + WAIT_NS;

	while (receive(reply, deadline_ns, 0)) {
		if (reply->kind == request->kind && reply->number == request->number)
			return true;
		if (reply->kind == TEK_TELL_REFUSED) {
			forget();
			tek__connection_note_why(reply);
			return false;
		}
		if (!is_notice(reply)) {
			forget_because(something_else);
			return false;
		}
		notified(reply);
		if (tek__now(CLOCK_MONOTONIC) >= deadline_ns) {
			is_silent();
			return false;
		}
	}
	return false;
}

static bool send_request(const struct tek_request *request)
{
	uint64_t deadline_ns = tek__now(CLOCK_MONOTONIC) + WAIT_NS;
	ssize_t length;

	do
		length = send(fd, request, sizeof(*request), MSG_NOSIGNAL);
	while (length < 0 && was_interrupted(deadline_ns));
	/* It hung up, and may have said why. */
	if (length == sizeof(*request) || errno == EPIPE)
		return true;
	if (has_timed_out())
		is_silent();
	else
		forget_because("it ended");
	return false;
}

bool tek__connection_ask(unsigned int kind, struct tek_request *request, struct tek_reply *reply,
			 tek_notified *notified)
{
	struct caller caller = begin();

	request->magic = TEK_REQUEST_MAGIC;
	request->version = TEK_SOCKET_VERSION;
	request->kind = (tek_u16)kind;
	request->number = ++requests ? requests : ++requests; /* 0 marks a NOTICE */
	bool answered = tek__connection_is_open() && send_request(request) &&
			await(request, reply, notified);
	end(caller);
	return answered;
}

void tek__connection_listen(tek_notified *notified)
{
	struct caller caller = begin();
	struct tek_reply reply;

	for (unsigned int i = 0; i < MOST_AT_ONCE && tek__connection_is_open(); i++) {
		if (!receive(&reply, 0, MSG_DONTWAIT))
			break;
		if (is_notice(&reply))
			notified(&reply);
		else
			forget_because(something_else);
	}
	end(caller);
}

const char *tek__connection_why(void)
{
	return why;
}

void tek__connection_forget(void)
{
	int saved = errno;
	forget();
	silent_until_ns = 0;
	errno = saved;
}
