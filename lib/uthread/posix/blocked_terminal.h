/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The wait of a read of a terminal, or a serial line: VMIN and VTIME of termios(3). */
#ifndef TEK_UTHREAD_POSIX_BLOCKED_TERMINAL_H
#define TEK_UTHREAD_POSIX_BLOCKED_TERMINAL_H

#include "uthread/posix/blocked.h"

/*
 * Before the first wait for `blocked->file`, a character device with nothing to read: 0, and
 * *blocked has the terminal's deadline if it has one; or TEK_CALL_ITSELF.
 */
int tek_ut__terminal_read(struct tek_blocked *blocked, size_t size);

#endif
