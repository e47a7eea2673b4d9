/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The Stack Tuner's part in the life of a thread (tek-2020, IV-B). life/ calls these at creation
 * and exit; each does nothing unless TEK_STACK requests it.
 *
 *   tek__stack_choose()    by the creator: a size, if its kind is known and it may be chosen
 *   tek__stack_locate()    by the thread, first thing, under the lock: where its stack lies
 *   tek__stack_begins()    by the thread, under the same lock: for the label that it has already
 *   tek__stack_labelled()  after a name or role was set, by any thread
 *   tek__stack_prepare()   by the thread, before it runs: what measuring and overflows need
 *   tek__stack_measure_at_end()
 *                          by the thread, after its last destructor
 *   tek__stack_gone()      by the thread that finds it gone without its destructor
 *   tek__stack_release()   by the thread that frees its structure
 */
#ifndef TEK_STACK_STACK_H
#define TEK_STACK_STACK_H

#include "threads/stack_use.h"

#include <pthread.h>

struct tek_thread;

/* At the start of the process, after the configuration; in the child of any kind of fork. */
void tek__stack_start(void);
void tek__stack_forget(void);

/*
 * Before the thread is created; its birth is filled in.  Returns the attributes to create it
 * with: `attr` itself, or *own with another size.  Needs the lock.
 */
const pthread_attr_t *tek__stack_choose(struct tek_thread *thread, const pthread_attr_t *attr,
					pthread_attr_t *own);

/* Creation failed with attributes of ours: the program's own are tried. Needs the lock. */
void tek__stack_refused(struct tek_thread *thread);

/* In the thread itself. Needs the lock; makes no system call where it can be helped. */
void tek__stack_locate(struct tek_thread *thread);

/* In the thread itself, before tek__stack_prepare(). Needs the lock. */
void tek__stack_begins(struct tek_thread *thread);

/* Its name or role may have changed. Needs the lock, not the brief one. */
void tek__stack_labelled(struct tek_thread *thread);

/* In the thread itself, without the lock, before the program's function runs. */
void tek__stack_prepare(struct tek_thread *thread);

/*
 * In the thread itself, at its end, without the lock: the last measure, if there is to be one.
 * tek__stack_measured() follows, with the lock.
 */
bool tek__stack_measure_at_end(struct tek_thread *thread, struct tek_stack_use *use);

/* Instead, where TEK stands down: the C library may give the stack to another thread. */
void tek__stack_give_back(struct tek_thread *thread);

/*
 * In the thread itself, at its end: the kernel has this name for it.  If that was set past TEK, all
 * that it used counts for its kind before, too.  Needs the lock, the brief one will do.
 */
void tek__stack_ends_as(struct tek_thread *thread, const char name[16],
			const struct tek_stack_use *use);

/* It is gone, without having ended here. Needs the lock. */
void tek__stack_gone(struct tek_thread *thread);

/* The calling thread's, by asking the C library if need be: not under the lock. */
void tek__stack_locate_slowly(void);

/*
 * TEK_ZONE_*.  A stack that TEK fitted is meant to be full: it is High only beyond what had been
 * learnt before this process began, whichever of its threads is measured first.
 */
unsigned char tek__stack_zone(const struct tek_stack *stack, const struct tek_stack_use *use);

/*
 * Where the stack of another thread lies, if it has not said so itself, or its limit may have
 * changed.  False: not known.  Needs the lock.
 */
bool tek__stack_locate_other(struct tek_thread *thread);

/*
 * How much a running thread uses now, into the table; it is freed if it turns out to be gone.
 * True: something changed.  Needs the lock.
 */
bool tek__stack_check(struct tek_thread *thread);

/*
 * The table is about to be left to its reader, `tek run` (exit, exec): running threads may have
 * gone deeper since the last measurement. Needs the lock.
 */
void tek__stack_finish(void);

/*
 * Corrects a thread's stack in attributes that the C library filled in for the program: room that
 * may become stack is a part of it, and not of the guard. Needs the lock, or is the calling
 * thread's.
 */
void tek__stack_report(const struct tek_thread *thread, pthread_attr_t *attr);

/* Its structure is about to be free. Needs the lock. */
void tek__stack_release(struct tek_thread *thread);

/* It was measured: note it, set its zone, warn. Does not publish. Needs the lock. */
void tek__stack_measured(struct tek_thread *thread, const struct tek_stack_use *use);

#endif
