/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where TEK says what it has to say: the file that $TEK_EVENTS names, or standard error, as long as
 * that is what it was at the start.  Neither kills the program nor holds it up.
 *
 * But for the start all of it is async-signal-safe, and past the symbols of the C library that a
 * program may find replaced.
 */
#ifndef TEK_BASE_CHANNEL_H
#define TEK_BASE_CHANNEL_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>

/* Before anything else: looks at the environment. */
void tek__channel_start(void);

/* The name that the program had at tek__channel_start(). */
const char *tek__channel_program(void);

/* Whether there is a file for events. */
bool tek__channel_has_file(void);

/* An event of this kind, now, of this process. */
struct tek_event tek__channel_event(unsigned int kind);

/* Into the file. Whether there is one. */
bool tek__channel_append(const struct tek_event *event);

/* Onto standard error. */
void tek__channel_say(const char *line, size_t length);

/* The end of a path says more than its beginning. To zeroed memory. */
void tek__channel_copy_tail(tek_u8 *to, size_t size, const char *from);

#endif
