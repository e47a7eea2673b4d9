/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that wait for a socket: other threads go on, and the calls keep their meaning. */
#include "blocking_calls.h"
#include "patience.h"

#include <sys/eventfd.h>

/*
 * Of a limit of 150 ms. The kernel counts it in its ticks, of which an emulated CPU may miss some
 * just before.
 */
#define AT_LEAST_NS (100 * MS)

static void a_datagram_waits_for_room_in_its_receivers_queue(void **state)
{
	(void)state;
	char byte = 'x';
	int file[2];

	make_sockets(file, SOCK_DGRAM);
	fill(file[1]);
	struct call call = {.make = call_send, .file = file[1], .bytes = &byte, .size = 1};
	begin_and_see_it_wait(&call);
	char room[4096];
	while (recv(file[0], room, sizeof(room), MSG_DONTWAIT) > 1)
		;
	assert_int_equal(end(&call), 1);
	close_pair(file);
}

static ssize_t call_accept(struct call *call)
{
	return accept(call->file, NULL, NULL);
}

static void a_socket_that_listens_gives_each_of_its_waiters_a_connection(void **state)
{
	(void)state;
	enum { WAITERS = 5, ROUNDS = 20 };
	struct sockaddr_in address;
	int server = listen_somewhere(&address, 10);

	for (int round = 0; round < ROUNDS; round++) {
		struct call calls[WAITERS];
		int clients[WAITERS];
		for (int i = 0; i < WAITERS; i++) {
			calls[i] = (struct call){.make = call_accept, .file = server};
			begin(&calls[i]);
		}
		if (round % 4 == 0)
			sleep_ms(5);
		for (int i = 0; i < WAITERS; i++)
			clients[i] = connect_to(&address);
		for (int i = 0; i < WAITERS; i++) {
			assert_true(end(&calls[i]) >= 0);
			close((int)calls[i].result);
			close(clients[i]);
		}
	}
	struct call call = {.make = call_accept, .file = server};
	set_time_limit(server, SO_RCVTIMEO, 150);
	begin(&call);
	assert_fails(&call, EAGAIN);
	assert_in_range(call.ns, AT_LEAST_NS, 2000 * MS);
	close(server);
}

static ssize_t call_connect(struct call *call)
{
	return connect(call->file, (const struct sockaddr *)call->bytes, (socklen_t)call->size);
}

static void connect_returns_how_it_ended(void **state)
{
	(void)state;
	struct sockaddr_in address;
	int server = listen_somewhere(&address, 0), full[8];
	struct call call = {
		.make = call_connect, .bytes = (char *)&address, .size = sizeof(address)};

	/* Taken, and then once more. */
	call.file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	begin(&call);
	assert_int_equal(end(&call), 0);
	begin(&call);
	assert_fails(&call, EISCONN);
	assert_false(fcntl(call.file, F_GETFL) & O_NONBLOCK);
	close(call.file);

	/* No process accepts it, for as long as it waits. */
	for (int i = 0; i < 8; i++) {
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(full[i], (struct sockaddr *)&address, sizeof(address));
	}
	call.file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	set_time_limit(call.file, SO_SNDTIMEO, 150);
	begin_and_see_it_wait_until(&call, now_ns(), AT_LEAST_NS);
	assert_fails(&call, EINPROGRESS);
	assert_in_range(call.ns, AT_LEAST_NS, 2000 * MS);
	close(call.file);
	for (int i = 0; i < 8; i++)
		close(full[i]);
	close(server);

	/* Without a listener. */
	call.file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	begin(&call);
	assert_fails(&call, ECONNREFUSED);
	close(call.file);
}

static void recv_waits_for_all_if_asked_to(void **state)
{
	(void)state;
	char bytes[8] = {0};
	int file[2];

	make_sockets(file, SOCK_STREAM);
	struct call call = {.make = call_recv,
			    .file = file[0],
			    .bytes = bytes,
			    .size = 8,
			    .flags = MSG_WAITALL};
	begin_and_see_it_wait(&call);
	send_bytes(file[1], "1234", 4);
	sleep_ms(20);
	assert_false(call.done);
	send_bytes(file[1], "5678", 4);
	assert_int_equal(end(&call), 8);
	assert_memory_equal(bytes, "12345678", 8);

	call.flags = MSG_PEEK;
	begin_and_see_it_wait(&call);
	send_bytes(file[1], "abc", 3);
	assert_int_equal(end(&call), 3);
	call.flags = MSG_WAITALL; /* the end comes before all */
	begin_and_see_it_wait(&call);
	close(file[1]);
	assert_int_equal(end(&call), 3);
	close(file[0]);
}

static ssize_t call_recvfrom(struct call *call)
{
	struct sockaddr_in from = {0};
	socklen_t size = sizeof(from);
	ssize_t got = recvfrom(call->file, call->bytes, call->size, 0, (struct sockaddr *)&from,
			       &size);
	assert_int_equal(size, sizeof(from));
	call->other = ntohs(from.sin_port);
	return got;
}

static int udp_socket(struct sockaddr_in *address)
{
	int file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(file, (struct sockaddr *)address, size), 0);
	assert_int_equal(getsockname(file, (struct sockaddr *)address, &size), 0);
	return file;
}

static void recvfrom_returns_the_address_of_the_sender(void **state)
{
	(void)state;
	struct sockaddr_in to, from;
	int receiver = udp_socket(&to), sender = udp_socket(&from);
	char bytes[8];
	struct call call = {
		.make = call_recvfrom, .file = receiver, .bytes = bytes, .size = sizeof(bytes)};

	begin_and_see_it_wait(&call);
	assert_int_equal(sendto(sender, "abc", 3, 0, (struct sockaddr *)&to, sizeof(to)), 3);
	assert_int_equal(end(&call), 3);
	assert_int_equal(call.other, ntohs(from.sin_port));
	close(receiver);
	close(sender);
}

/* A descriptor comes with it. */
static ssize_t call_recvmsg(struct call *call)
{
	struct iovec one = {call->bytes, call->size};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = &one,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(call->file, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(&call->other, CMSG_DATA(header), sizeof(call->other));
	return got;
}

static void recvmsg_gets_what_comes_with_a_message(void **state)
{
	(void)state;
	char bytes[8];
	int file[2], sent = eventfd(7, EFD_CLOEXEC);
	struct iovec one = {"abc", 3};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	const struct msghdr message = {.msg_iov = &one,
				       .msg_iovlen = 1,
				       .msg_control = &control,
				       .msg_controllen = sizeof(control)};

	make_sockets(file, SOCK_STREAM);
	struct call call = {.make = call_recvmsg,
			    .file = file[0],
			    .other = -1,
			    .bytes = bytes,
			    .size = sizeof(bytes)};
	begin_and_see_it_wait(&call);
	memcpy(CMSG_DATA(&control.header), &sent, sizeof(sent));
	assert_int_equal(sendmsg(file[1], &message, 0), 3);
	assert_int_equal(end(&call), 3);
	eventfd_t value;
	assert_int_equal(eventfd_read(call.other, &value), 0);
	assert_int_equal(value, 7);
	close(call.other);
	close(sent);
	close_pair(file);
}

static ssize_t call_recvmmsg(struct call *call)
{
	struct iovec pieces[4];
	struct mmsghdr messages[4];

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < 4; i++) {
		pieces[i] = (struct iovec){call->bytes + i, 1};
		messages[i].msg_hdr.msg_iov = &pieces[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	return recvmmsg(call->file, messages, 4, call->flags, NULL);
}

static void recvmmsg_waits_for_all_messages_or_for_one(void **state)
{
	(void)state;
	char bytes[4];
	int file[2];

	make_sockets(file, SOCK_DGRAM);
	struct call call = {.make = call_recvmmsg, .file = file[0], .bytes = bytes};
	begin_and_see_it_wait(&call);
	send_bytes(file[1], "a", 1);
	send_bytes(file[1], "b", 1);
	sleep_ms(20);
	assert_false(call.done);
	send_bytes(file[1], "c", 1);
	send_bytes(file[1], "d", 1);
	assert_int_equal(end(&call), 4);
	assert_memory_equal(bytes, "abcd", 4);

	call.flags = MSG_WAITFORONE;
	begin_and_see_it_wait(&call);
	send_bytes(file[1], "e", 1);
	assert_in_range(end(&call), 1, 4);
	close_pair(file);
}

static ssize_t call_sendmmsg(struct call *call)
{
	struct mmsghdr messages[2];
	struct iovec pieces[2] = {{call->bytes, call->size}, {call->bytes, 1}};

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < 2; i++) {
		messages[i].msg_hdr.msg_iov = &pieces[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	int sent = sendmmsg(call->file, messages, 2, 0);
	assert_int_equal(messages[0].msg_len, call->size);
	return sent;
}

static void sendmmsg_sends_all_of_each_message(void **state)
{
	(void)state;
	static char bytes[MUCH];
	int file[2];

	make_sockets(file, SOCK_STREAM);
	struct call call = {
		.make = call_sendmmsg, .file = file[1], .bytes = bytes, .size = MUCH - 1};
	begin_and_see_it_wait(&call);
	read_slowly(file[0], bytes, MUCH);
	assert_int_equal(end(&call), 2);
	close_pair(file);
}

static void a_non_blocking_file_does_not_wait(void **state)
{
	(void)state;
	ssize_t (*const calls[])(struct call *) = {call_read,  call_readv,    call_recv,
						   call_write, call_writev,   call_send,
						   call_read,  call_recvmmsg, call_recvmsg};
	for (int i = 0; i < 9; i++) {
		char bytes[16];
		struct call call = {.make = calls[i], .bytes = bytes, .size = sizeof(bytes)};
		int file[2];
		if (i == 6)
			make_pipe(file);
		else
			make_sockets(file, SOCK_STREAM);
		call.file = file[0];
		if (i >= 3 && i < 6)
			fill(file[0]);
		fcntl(file[0], F_SETFL, O_NONBLOCK);
		begin(&call);
		assert_fails(&call, EAGAIN);
		close_pair(file);
	}
	struct sockaddr_in address;
	struct call call = {.make = call_accept, .file = listen_somewhere(&address, 1)};
	fcntl(call.file, F_SETFL, O_NONBLOCK);
	begin(&call);
	assert_fails(&call, EAGAIN);
	close(call.file);
}

static void a_call_that_must_not_wait_does_not(void **state)
{
	(void)state;
	char byte;
	int file[2];

	make_sockets(file, SOCK_STREAM);
	struct call call = {.make = call_recv,
			    .file = file[0],
			    .bytes = &byte,
			    .size = 1,
			    .flags = MSG_DONTWAIT};
	begin(&call);
	assert_fails(&call, EAGAIN);
	call.make = call_read;
	call.size = 0;
	begin(&call);
	assert_int_equal(end(&call), 0);
	close_pair(file);
	begin(&call);
	assert_fails(&call, EBADF);
}

static void the_time_limit_of_a_socket_is_respected(void **state)
{
	(void)state;
	char bytes[4096];
	int file[2];

	make_sockets(file, SOCK_STREAM);
	set_time_limit(file[0], SO_RCVTIMEO, 150);
	set_time_limit(file[0], SO_SNDTIMEO, 150);
	struct call call = {
		.make = call_read, .file = file[0], .bytes = bytes, .size = sizeof(bytes)};
	begin_and_see_it_wait_until(&call, now_ns(), AT_LEAST_NS);
	assert_fails(&call, EAGAIN);
	assert_in_range(call.ns, AT_LEAST_NS, 2000 * MS);
	fill(file[0]);
	call.make = call_write;
	begin_and_see_it_wait_until(&call, now_ns(), AT_LEAST_NS);
	assert_fails(&call, EAGAIN);
	assert_in_range(call.ns, AT_LEAST_NS, 2000 * MS);
	close_pair(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_waits_for_room_in_its_receivers_queue),
		cmocka_unit_test(a_socket_that_listens_gives_each_of_its_waiters_a_connection),
		cmocka_unit_test(connect_returns_how_it_ended),
		cmocka_unit_test(recv_waits_for_all_if_asked_to),
		cmocka_unit_test(recvfrom_returns_the_address_of_the_sender),
		cmocka_unit_test(recvmsg_gets_what_comes_with_a_message),
		cmocka_unit_test(recvmmsg_waits_for_all_messages_or_for_one),
		cmocka_unit_test(sendmmsg_sends_all_of_each_message),
		cmocka_unit_test(a_non_blocking_file_does_not_wait),
		cmocka_unit_test(a_call_that_must_not_wait_does_not),
		cmocka_unit_test(the_time_limit_of_a_socket_is_respected),
	};
	limit_to(100);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
