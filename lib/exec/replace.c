/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/replace.h"

#include "ident/process.h"
#include "ident/thread.h"
#include "mediate/region.h"
#include "mediate/report.h"
#include "mediate/rt.h"
#include "stack/stack.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The child of vfork() runs in its parent's memory, with its parent's thread
 * structure and locks, until it execs: there nothing of ours may be touched.
 */
static bool in_vfork_child(void)
{
	return (pid_t)syscall(SYS_getpid) != tek__pid();
}

bool tek__exec_step_out(void)
{
	struct tek_thread *self = tek__thread_known_self();

	if (!self)
		return false;
	if (in_vfork_child()) {
		/* The parent waits, so nothing changes; but its lock may be held by others. */
		if (self->member.fast)
			tek__rt_inherit(0, &self->member.base, tek__rt_nice(self->tid));
		return false;
	}
	if (!tek__lock())
		return false;
	bool paused = tek__region_pause(self);
	tek__unlock();
	return paused;
}

void tek__exec_step_in(void)
{
	struct tek_thread *self = tek__thread_known_self();

	if (!self || !tek__lock())
		return;
	tek__region_resume(self);
	tek__unlock();
}

/* In a vfork() child the table is its parent's, which goes on. */
static void with_table(void (*change)(void))
{
	if (!in_vfork_child() && tek__lock()) {
		change();
		tek__unlock();
	}
}

/* The other threads end with the program. */
static void end_table(void)
{
	tek__stack_finish();
	tek__table_hide();
}

void tek__exec_hide_table(void)
{
	with_table(end_table);
}

void tek__exec_show_table(void)
{
	with_table(tek__table_show);
}

void tek__exec_name(const char *path, struct tek_verdict verdict)
{
	/* The last few that were named, by a hash of their path: a shell runs the same ones. */
	static uint32_t named[16];
	static unsigned int next;
	uint32_t hash = 2166136261u; /* FNV-1a */

	if (!verdict.why)
		return;
	for (const char *p = path; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (named[i] == hash)
			return;
	named[next++ % (sizeof(named) / sizeof(named[0]))] = hash;
	tek__report_not_covered(path, verdict.why);
}
