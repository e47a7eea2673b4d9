/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The row in which touch waits for a service on a message bus: dbus-daemon, and another process
 * that serves.  No other program uses this bus. Its configuration is a file without a name.
 */
#include "row.h"
#include "server.h"

#include "../response/clock.h"

#include <dbus/dbus.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SERVICE "org.example.Matrix"
#define REPLY_TIMEOUT_MS 60000

static char address[64];
static DBusConnection *client;

static void daemon_run(void)
{
	char option[64];
	int file = memfd_create("bus.conf", 0);
	if (file < 0 || dprintf(file,
				"<busconfig><type>session</type><listen>%s</listen>"
				"<auth>EXTERNAL</auth><policy context=\"default\">"
				"<allow send_destination=\"*\"/><allow receive_sender=\"*\"/>"
				"<allow own=\"*\"/></policy>"
				"</busconfig>",
				address) < 0)
		err(EXIT_FAILURE, "cannot configure a message bus");
	snprintf(option, sizeof(option), "--config-file=/proc/self/fd/%d", file);
	execlp("dbus-daemon", "dbus-daemon", option, "--nofork", "--nopidfile", "--nosyslog", NULL);
	err(EXIT_FAILURE, "cannot start dbus-daemon; apt-get install dbus-daemon");
}

/* A connection of its own, as soon as the daemon listens. */
static DBusConnection *bus_connect(void)
{
	DBusError error = DBUS_ERROR_INIT;
	uint64_t begin = clock_ns();
	DBusConnection *connection;
	while (!(connection = dbus_connection_open_private(address, &error))) {
		if (!server_await(begin))
			errx(EXIT_FAILURE, "the message bus does not listen: %s", error.message);
		dbus_error_free(&error);
	}
	if (!dbus_bus_register(connection, &error))
		errx(EXIT_FAILURE, "the message bus refuses a connection: %s", error.message);
	return connection;
}

static void message_answer(DBusConnection *connection, DBusMessage *message)
{
	if (dbus_message_get_type(message) != DBUS_MESSAGE_TYPE_METHOD_CALL)
		return;
	work_ms(PART_MS);
	background_did();
	DBusMessage *reply = dbus_message_new_method_return(message);
	if (!reply || !dbus_connection_send(connection, reply, NULL))
		errx(EXIT_FAILURE, "cannot answer on the message bus");
	dbus_connection_flush(connection);
	dbus_message_unref(reply);
}

static void service_run(void)
{
	DBusConnection *connection = bus_connect();
	if (dbus_bus_request_name(connection, SERVICE, 0, NULL) < 0)
		errx(EXIT_FAILURE, "the message bus refuses a name");
	DBusMessage *message;
	while (dbus_connection_read_write(connection, -1)) {
		while ((message = dbus_connection_pop_message(connection))) {
			message_answer(connection, message);
			dbus_message_unref(message);
		}
	}
	_exit(EXIT_FAILURE);
}

static void bus_prepare(void)
{
	/* Only processes of the same user can use it. */
	snprintf(address, sizeof(address), "unix:abstract=tek-matrix-%d", (int)getpid());
	if (child_start())
		daemon_run();
	if (child_start())
		service_run();
}

static void bus_start(void)
{
	uint64_t begin = clock_ns();
	client = bus_connect();
	while (!dbus_bus_name_has_owner(client, SERVICE, NULL)) {
		if (!server_await(begin))
			errx(EXIT_FAILURE, "the service does not come to the message bus");
	}
}

static void bus_wait(void)
{
	DBusError error = DBUS_ERROR_INIT;
	DBusMessage *call = dbus_message_new_method_call(SERVICE, "/", SERVICE, "Ask"), *reply;
	if (!call)
		errx(EXIT_FAILURE, "cannot make a message");
	reply = dbus_connection_send_with_reply_and_block(client, call, REPLY_TIMEOUT_MS, &error);
	if (!reply)
		errx(EXIT_FAILURE, "no answer came by the message bus: %s", error.message);
	dbus_message_unref(reply);
	dbus_message_unref(call);
}

const struct row bus_rows[] = {
	{.name = "dbus", .prepare = bus_prepare, .start = bus_start, .wait = bus_wait},
	{.name = NULL},
};
