/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The exec and spawn families.  Their symbols are those of preload/exec.c and preload/spawn.c,
 * which look at the program that is to run, as in libtek.so, and take this library out of
 * LD_PRELOAD where it would do harm.  Here is what they call around that.
 *
 * Handlers end with the program that calls exec, a signal that waits to be handled does not: a tick
 * that came just before would kill the next program.  So ticks are ignored from here on, which also
 * drops those that wait.
 */
#include "preload/uthread/exec.h"

#include "base/channel.h"
#include "base/real.h"
#include "threads/table.h"
#include "uthread/affinity.h"
#include "uthread/engine.h"
#include "uthread/posix/start.h"
#include "uthread/tick.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* Two threads may do it at the same time: both find the same. */
bool tek_ut__start(void)
{
	static atomic_bool started;

	if (atomic_load_explicit(&started, memory_order_acquire))
		return true;
	tek__real_find();
	tek__target_start();
	tek__target_add_uthreads();
	atomic_store_explicit(&started, true, memory_order_release);
	return true;
}

/* Before any fork: in its child the loader may be locked. */
__attribute__((constructor)) static void start(void)
{
	tek_ut__start();
}

/*
 * The engine goes on under a filter of the program's, and so does this library in what that
 * executes.
 */
bool tek_ut__is_confined(void)
{
	return false;
}

/* This program is about to be replaced. */
void tek_ut__exec_hide_table(void)
{
	if (!tek_ut__engine_runs())
		return;
	/* In the child of vfork() it is its parent's, which goes on. */
	if (!tek_ut__start_is_borrowed())
		tek__table_hide();
	tek_ut__tick_ignore();
}

/* It is still this program. */
void tek_ut__exec_show_table(void)
{
	if (!tek_ut__engine_runs())
		return;
	tek_ut__tick_heed();
	if (!tek_ut__start_is_borrowed())
		tek__table_show();
}

/* No thread is in libtek.so's Fast Region here; but workers may be bound to their CPUs. */
bool tek_ut__exec_step_out(void)
{
	return tek_ut__affinity_step_out();
}

void tek_ut__exec_step_in(void)
{
	tek_ut__affinity_step_in();
}

/* Without the file of a run it is not reported: standard error is the program's. */
void tek_ut__exec_name(const char *path, struct tek_verdict verdict)
{
	const int saved = errno;

	if (verdict.why) {
		struct tek_event event = tek__channel_event(TEK_EVENT_NOT_COVERED);
		memset(event.program, 0, sizeof(event.program));
		tek__channel_copy_tail(event.program, sizeof(event.program), path);
		tek__channel_copy_tail(event.text, sizeof(event.text), verdict.why);
		tek__channel_append(&event);
	}
	errno = saved;
}

/* There is no libtek-uthread.so for the other word size. */
void tek_ut__exec_name_lacking(const char *path, char *const environment[], const char *other)
{
	(void)path, (void)environment, (void)other;
}
