/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/blocked_terminal.h"

#include <termios.h>
#include <unistd.h>

int tek_ut__terminal_read(struct tek_blocked *blocked, size_t size)
{
	struct termios settings;

	if (tcgetattr(blocked->file, &settings))
		return 0; /* another device */
	/* In the background: the kernel stops the process, or returns EIO. */
	pid_t foreground = tcgetpgrp(blocked->file);
	if (foreground > 0 && foreground != getpgrp())
		return TEK_CALL_ITSELF;
	if (settings.c_lflag & ICANON)
		return 0;
	cc_t least = settings.c_cc[VMIN], tenths = settings.c_cc[VTIME];
	if (least == 0 && tenths == 0)
		return TEK_CALL_ITSELF; /* does not wait */
	if (least == 0) {
		const struct timespec time = {tenths / 10, tenths % 10 * 100000000L};
		blocked->deadline = tek_ut__deadline_in(&time);
		blocked->limited = true;
	} else if (tenths == 0 && size < least) {
		return TEK_CALL_ITSELF; /* poll(2) would wait for more than it wants */
	}
	return 0;
}
