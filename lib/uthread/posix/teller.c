/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/teller.h"

#include "base/page.h"
#include "threads/table.h"
#include "uthread/posix/record.h"
#include "uthread/posix/roles.h"
#include "uthread/posix/start.h"

static void set_scheduling(struct tek_record *record, const struct tek_uthread *thread)
{
	const struct tek_posix *posix = thread->posix;

	record->policy = (tek_u8)atomic_load_explicit(&posix->policy, memory_order_relaxed);
	record->priority = (tek_s8)atomic_load_explicit(&posix->priority, memory_order_relaxed);
}

/* The stack, the engine's own data at its top included. */
static void set_stack(struct tek_record *record, struct tek_side *side,
		      const struct tek_uthread *thread)
{
	const unsigned int shift = (unsigned int)__builtin_ctzl(tek__page_bytes);
	const struct tek_posix *posix = thread->posix;

	if (!thread->block_bytes) /* the first thread's stack is the kernel's */
		return;
	if (posix->stack != thread->stack_low + posix->extra_guard) {
		side->stack_flags = TEK_STACK_OWN;
		side->stack_end = (uintptr_t)posix->stack + posix->stack_bytes;
		record->stack_pages = (tek_u32)(posix->stack_bytes >> shift);
		return;
	}
	/* Below it is the engine's guard page. */
	const size_t bytes = thread->block_bytes - tek__page_bytes - posix->extra_guard;
	side->stack_end = (uintptr_t)posix->stack + bytes;
	record->stack_pages = (tek_u32)(bytes >> shift);
}

void tek_ut__posix_table_open(void)
{
	static struct tek_table_teller teller = {
		.set_scheduling = set_scheduling,
		.set_stack = set_stack,
	};

	teller.role_of = tek_ut__roles_any ? tek_ut__role_of : NULL;
	tek_ut__table_open(&teller);
}

__attribute__((destructor)) static void finish(void)
{
	if (!tek_ut__start_is_borrowed())
		tek__table_end();
}
