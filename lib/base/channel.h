/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The output of TEK's messages: events go to the file that $TEK_EVENTS names, lines to standard
 * error.  Lines are dropped if the program has put another file in the place of standard error.
 *
 * A write never blocks on a full pipe, and its signals (SIGPIPE, SIGXFSZ, SIGTTOU) do not reach the
 * program: then the message is lost.
 *
 * All functions except tek__channel_start() are async-signal-safe. They make raw system calls,
 * because programs and tools can replace the C library's write(2) and its like.
 */
#ifndef TEK_BASE_CHANNEL_H
#define TEK_BASE_CHANNEL_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads the environment. To be called before the other functions. */
void tek__channel_start(void);

/* The name that the program had at tek__channel_start(). */
const char *tek__channel_program(void);

/* Whether there is a file for events. */
bool tek__channel_has_file(void);

/* Makes an event of this kind with the present time and the process id. */
struct tek_event tek__channel_event(unsigned int kind);

/* Appends an event to the file. False: there is no file, or it cannot be opened. */
bool tek__channel_append(const struct tek_event *event);

/* Writes a line to standard error. */
void tek__channel_report(const char *line, size_t length);

/*
 * Copies the end of a path, which identifies a program better than its beginning. `to` is zeroed
 * memory of `size` bytes, and stays terminated.
 */
void tek__channel_copy_tail(tek_u8 *to, size_t size, const char *from);

#endif
