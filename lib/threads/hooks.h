/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of the layers above that this layer calls: at the start, in the child of a fork,
 * and when a thread becomes known or is gone.
 *
 * They are one constant table, which life/hooks.c fills. They are called with the lock, unless
 * noted otherwise.
 */
#ifndef TEK_THREADS_HOOKS_H
#define TEK_THREADS_HOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tek_thread;

struct tek_hooks {
	/* tek__start() (life/start.h). Without the lock. */
	bool (*start)(void);
	/* In the child of a fork: the parent's threads, table and helpers are not ours. No lock. */
	void (*begin_again)(void);

	/* The group of threads without a known creator: TEK_GROUP_*. */
	const unsigned char *first_group;
	/* Whether it is the kernel id of a helper thread of TEK. */
	bool (*is_helper)(pid_t tid);
	/* A helper begins, in that thread and without the lock. */
	void (*helper_begins)(void);

	/* In the thread itself: its destructor runs at its end; its stack is located. */
	void (*watch_end)(struct tek_thread *thread);
	void (*locate_stack)(struct tek_thread *thread);
	/* A thread that was not created through TEK is known from now on. */
	void (*adopted)(struct tek_thread *thread);
	/* A thread gets the group of its creator. */
	void (*set_group)(struct tek_thread *thread, unsigned int group);
	/* It has no reason to be Fast any more. */
	void (*leave_region)(struct tek_thread *thread);
	/* A thread becomes Fast, and no other one is. */
	void (*region_begins)(void);
	/* A thread that waits has become Fast, or a Fast one has left: lifts may change. */
	void (*waits_changed)(void);
	/*
	 * The guard asks at a time which threads are to be lifted. Returns the time at which it is
	 * to ask again.
	 */
	uint64_t (*waits_are_over)(uint64_t now);
	/* Its end was not noticed: its stack is no longer its own. */
	void (*stack_gone)(struct tek_thread *thread);
	/* The memory that TEK has for its stack. */
	void (*release_stack)(struct tek_thread *thread);
};

extern const struct tek_hooks tek__hooks;

#endif
