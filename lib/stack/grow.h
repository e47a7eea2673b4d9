/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Enlarges the stack of a fitted thread: after a fault in its reserve, or when its label shows that
 * its kind needs more.
 *
 * --stack grow: the low part of a fitted stack, its reserve, cannot be accessed until the thread
 * faults there; then TEK's handler of SIGSEGV gives it more. stack.reserve_bytes is the
 * inaccessible part now: less after each fault, 0 once it is all there.
 *
 * Room: where a thread may turn out to be of a kind that needs more, its guard is larger by
 * stack.room_bytes.  That costs addresses, but no memory, also where all memory is locked.  It
 * becomes stack when the thread gets the label of such a kind, or faults there before that.
 *
 * A system call that is given an address in the reserve or the room fails with EFAULT.
 */
#ifndef TEK_STACK_GROW_H
#define TEK_STACK_GROW_H

#include "threads/stack_use.h"

struct tek_thread;

/* How much larger a stack is made, for its reserve: up to the 8 MiB that a thread has elsewhere. */
size_t tek__grow_reserve(size_t bytes);

/*
 * The thread, with a known area, gets the label of a kind that needs stacks of so many bytes: as
 * much of its reserve or room as that takes becomes stack. Needs the lock.
 */
void tek__grow_to(struct tek_thread *thread, size_t bytes);

/* The calling thread: take its reserve away; return it, or the room, when it ends. Need no lock. */
void tek__grow_begin(struct tek_thread *thread);
void tek__grow_end(struct tek_thread *thread);

/*
 * A thread that left by SYS_exit could not give its reserve back; if the calling thread has its
 * stack by now, it gets it. Needs no lock.
 */
void tek__grow_inherit(struct tek_thread *gone);

/*
 * In the handler: whether the fault was in the calling thread's reserve, and there is more now.
 * `thread` is the calling one; NULL where it is not known, as in the child of a fork.
 */
bool tek__grow_at(struct tek_thread *thread, uintptr_t address);

/*
 * The same where the kernel found no room for the frame of a signal, of so many bytes, below the
 * stack pointer. That signal is lost: the kernel does not report which one it was.
 */
bool tek__grow_for_signal(struct tek_thread *thread, uintptr_t pointer, size_t bytes);

#endif
