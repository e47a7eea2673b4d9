/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/native_table.h"

#include "base/module.h"
#include "base/page.h"
#include "threads/rundir.h"
#include "threads/table.h"
#include "uthread/inherit.h"
#include "uthread/shown.h"
#include "uthread/stacks.h"
#include "uthread/table.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

static pid_t opener;
static atomic_uint threads;

static void set_scheduling(struct tek_record *record, const struct tek_uthread *thread)
{
	record->policy = thread->sched.critical ? TEK_SCHED_POLICY : SCHED_OTHER;
	record->priority = (tek_s8)tek_ut__priority_of((struct tek_uthread *)(uintptr_t)thread);
}

static void set_stack(struct tek_record *record, struct tek_side *side,
		      const struct tek_uthread *thread)
{
	if (!thread->block_bytes) /* the first thread's stack is the kernel's */
		return;
	if (thread->own_stack) {
		side->stack_flags |= TEK_STACK_OWN; /* only the program knows its end */
		return;
	}
	side->stack_end = (uintptr_t)tek_ut__stack_end(thread);
	record->stack_pages = (tek_u32)((side->stack_end - (uintptr_t)thread->stack_low) >>
					__builtin_ctzl(tek__page_bytes));
}

/* Also by a thread that is preempted, which must not find errno changed. */
static void newcomer(struct tek_uthread *thread)
{
	const int saved = errno;
	const struct tek_table_birth birth = {.function = (uintptr_t)thread->routine};
	const unsigned int now = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;

	tek_ut__table_created(thread, &birth, now);
	if (thread->shown)
		tek_ut__shown_runs(thread, tek_ut__here_worker()->number);
	else
		atomic_fetch_sub_explicit(&threads, 1, memory_order_relaxed);
	errno = saved;
}

static void gone(struct tek_uthread *thread)
{
	tek_ut__table_ended(thread,
			    atomic_fetch_sub_explicit(&threads, 1, memory_order_relaxed) - 1);
}

void tek_ut__native_table_start(void)
{
	tek__rundir_ending = TEK_RUNDIR_NATIVE;
	tek__table_remove_stale();
}

void tek_ut__native_table_open(void)
{
	static const struct tek_table_teller teller = {
		.set_scheduling = set_scheduling,
		.set_stack = set_stack,
		.newcomer = newcomer,
		.gone = gone,
	};

	tek__module_note_program();
	opener = getpid();
	atomic_store(&threads, 1);
	tek_ut__table_open(&teller);
}

__attribute__((destructor)) static void finish(void)
{
	if (opener == getpid())
		tek__table_end();
}
