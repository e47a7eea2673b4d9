/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/replace.h"

#include "exec/preload_list.h"
#include "mediate/region.h"
#include "mediate/rt.h"
#include "place/place.h"
#include "stack/stack.h"
#include "threads/process.h"
#include "threads/report.h"
#include "threads/thread.h"

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

/* Of the calling thread: whether it was Fast when it made its last child by vfork(). */
static __thread bool was_fast __attribute__((tls_model("initial-exec")));

void tek__exec_lends(void)
{
	const struct tek_thread *self = tek__thread_known_self();

	/* The child of a vfork() that makes another one keeps what is known of its parent. */
	if (!self || !tek__lock())
		return;
	was_fast = self->member.fast;
	tek__unlock();
}

/* Of the calling thread: whether it is out of the Fast Region, until tek__exec_step_in(). */
static __thread bool is_paused __attribute__((tls_model("initial-exec")));

static bool pause_self(void)
{
	struct tek_thread *self = tek__thread_known_self();

	if (!self)
		return false;
	if (in_vfork_child()) {
		/*
		 * The parent waits, but its lock may be held by other threads, and they may have
		 * ended its stay since: the child did not leave with it.
		 */
		if (self->member.fast || was_fast)
			tek__rt_inherit(0, &self->member.base, tek__scheduling_nice(self->tid));
		return false;
	}
	if (!tek__lock())
		return false;
	bool paused = tek__region_pause(self);
	tek__unlock();
	return paused;
}

bool tek__exec_step_out(void)
{
	if (tek__is_confined())
		return false;
	is_paused = pause_self();
	const bool left = tek__place_step_out();
	return is_paused || left;
}

void tek__exec_step_in(void)
{
	struct tek_thread *self = tek__thread_known_self();

	tek__place_step_in();
	if (!is_paused || !self || !tek__lock())
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
	tek__place_end();
	with_table(end_table);
}

void tek__exec_show_table(void)
{
	with_table(tek__table_show);
}

/*
 * Whether it is one of the last few that were named, by a hash of their path: a shell runs the same
 * ones.
 */
static bool was_named(const char *path)
{
	static uint32_t named[16];
	static unsigned int next;
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (const char *p = path; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (named[i] == hash)
			return true;
	named[next++ % (sizeof(named) / sizeof(named[0]))] = hash;
	return false;
}

void tek__exec_name(const char *path, struct tek_verdict verdict)
{
	if (verdict.why && !was_named(path))
		tek__report_not_covered(path, verdict.why);
}

void tek__exec_name_lacking(const char *path, char *const environment[], const char *other)
{
	char names[64];

	if (environment && tek__preload_list_lacks(environment, other, names, sizeof(names)) &&
	    !was_named(path))
		tek__report_lacking(path, names);
}
