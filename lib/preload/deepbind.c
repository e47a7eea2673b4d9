/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/deepbind.h"

#include "base/channel.h"
#include "base/line.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int tek__without_deepbind(const char *name, int mode)
{
	static atomic_bool reported;
	const int error = errno;

	if (!(mode & RTLD_DEEPBIND) || !name)
		return mode;
	if (!atomic_exchange(&reported, true)) {
		struct tek_event event = tek__channel_event(TEK_EVENT_BAD_OPTION);
		struct tek_line line = {0};
		const char *slash = strrchr(name, '/');

		snprintf((char *)event.text, sizeof(event.text),
			 "%.30s is loaded without RTLD_DEEPBIND, which would give it another "
			 "malloc or locks",
			 slash ? slash + 1 : name);
		tek__line_add(&line, "tek: ");
		tek__line_add(&line, tek__channel_program());
		tek__line_add(&line, ": ");
		tek__line_add(&line, (const char *)event.text);
		tek__line_add(&line, "\n");
		if (!tek__channel_append(&event))
			tek__channel_report(line.text, line.length);
	}
	errno = error;
	return mode & ~RTLD_DEEPBIND;
}
