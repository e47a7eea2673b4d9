/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The server that touch asks over a UNIX socket. */
#ifndef MATRIX_SERVER_H
#define MATRIX_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/* Where the server has its socket and its files. */
struct server {
	char directory[64];
	char socket[80];
};

/*
 * Makes a directory in $TMPDIR or /tmp.  A process has one server.  Ends the process with a message
 * on errors.
 */
const struct server *server_prepare(void);

/* Starts it.  It prints nothing, and ends with this process.  `command` ends with NULL. */
void server_start(const char *const command[]);

/* Removes the directory.  The server keeps the files that it has opened. */
void server_hide(void);

/* Waits a moment before the next try.  Returns false if the time from `begin` in ns is over. */
bool server_await(uint64_t begin);

#endif
