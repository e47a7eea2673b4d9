/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/unpreempted.h"

#include "base/channel.h"
#include "base/line.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Once: a program that waits for another thread in a loop would stand still without a message. */
static void report_without(const char *what, int error, void (*cure)(struct tek_line *line))
{
	static atomic_bool reported;
	struct tek_line line = {0};

	if (atomic_exchange(&reported, true))
		return;
	tek__line_add(&line, "tek: ");
	tek__line_add(&line, tek__channel_program());
	tek__line_add(&line, "[");
	tek__line_add_number(&line, (uint64_t)getpid());
	tek__line_add(&line, "]: user-level threads are not preempted: ");
	tek__line_add(&line, what);
	tek__line_add(&line, ": ");
	tek__line_add(&line, strerrordesc_np(error));
	tek__line_add(&line, ". They switch only where they wait or yield. ");
	cure(&line);
	tek__line_add(&line, "\n");
	tek__channel_report(line.text, line.length);
}

/* Root raises the limit of the shell that started the program. */
static void cure_signals(struct tek_line *line)
{
	tek__line_add(line, "Each timer counts as a pending signal. To allow more, as root: "
			    "`prlimit --pid ");
	tek__line_add_number(line, (uint64_t)getppid());
	tek__line_add(line, " --sigpending=65536:65536`; for a systemd unit: "
			    "LimitSIGPENDING=65536.");
}

static void cure_filter(struct tek_line *line)
{
	tek__line_add(line, "Let the seccomp filter allow timer_create(2) and timer_settime(2).");
}

static void cure_proc(struct tek_line *line)
{
	tek__line_add(line, "As root: `mount -t proc proc /proc`.");
}

void tek_ut__unpreempted_without_timer(int error)
{
	report_without("timer_create", error, error == EAGAIN ? cure_signals : cure_filter);
}

void tek_ut__unpreempted_without_maps(int error)
{
	report_without("/proc/self/maps", error, cure_proc);
}
