/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/inherit.h"

#include "uthread/priority.h"
#include "uthread/worker.h"

/* A chain that is longer is a circle: threads that wait for each other. */
#define CHAIN_MAX 64

static struct tek_spin lock;

static void enter(void)
{
	tek_ut__enter();
	tek_ut__spin_lock(&lock);
}

static void leave(void)
{
	tek_ut__spin_unlock(&lock);
	tek_ut__leave();
}

/* Schedulers read it during a write. */
static int priority_now(const struct tek_uthread *thread)
{
	return __atomic_load_n(&thread->sched.priority, __ATOMIC_RELAXED);
}

/* The priority that this mutex gives its owner. */
static int priority_by(const struct tek_mutex_more *more, int priority)
{
	if (more->mutex->kind & TEK_MUTEX_PROTECT && more->ceiling > priority)
		priority = more->ceiling;
	for (const struct tek_own *own = more->blocked; own; own = own->waits_next) {
		if (own->thread && priority_now(own->thread) > priority)
			priority = priority_now(own->thread);
	}
	return priority;
}

/* The state of the owner of a mutex: NULL, if that is a kernel thread, or there is none. */
static struct tek_own *owner_of(struct tek_mutex *mutex)
{
	uintptr_t owner = atomic_load_explicit(&mutex->owner, memory_order_relaxed);

	return owner && !(owner & 1) ? ((struct tek_uthread *)owner)->keys : NULL;
}

/* Sets its priority by its mutexes, and those of the owners that it waits for. */
static void update(struct tek_own *own)
{
	for (int i = 0; own && own->thread && i < CHAIN_MAX; i++) {
		if (!own->raised)
			return;
		int priority = own->base;
		for (const struct tek_mutex_more *more = own->held; more; more = more->held_next)
			priority = priority_by(more, priority);
		if (priority == priority_now(own->thread))
			return;
		tek_ut__priority_change(own->thread, (signed char)priority);
		own = own->waits_for ? owner_of(own->waits_for) : NULL;
	}
}

void tek_ut__inherit_got(struct tek_own *own, struct tek_mutex *mutex)
{
	enter();
	atomic_store_explicit(&mutex->owner, tek_ut__me(), memory_order_relaxed);
	mutex->more->held_next = own->held;
	own->held = mutex->more;
	if (own->thread && !own->raised) {
		own->raised = true;
		own->base = (signed char)priority_now(own->thread);
	}
	update(own);
	leave();
}

void tek_ut__inherit_lose(struct tek_own *own, struct tek_mutex *mutex)
{
	struct tek_mutex_more **place;

	enter();
	for (place = &own->held; *place != mutex->more; place = &(*place)->held_next)
		;
	*place = mutex->more->held_next;
	atomic_store_explicit(&mutex->owner, 0, memory_order_relaxed);
	update(own);
	own->raised = own->raised && own->held;
	leave();
}

void tek_ut__inherit_set_ceiling(struct tek_own *own, struct tek_mutex *mutex, int ceiling)
{
	enter();
	mutex->more->ceiling = ceiling;
	update(own);
	leave();
}

void tek_ut__inherit_wait(struct tek_own *own, struct tek_mutex *mutex)
{
	enter();
	own->waits_for = mutex;
	own->waits_next = mutex->more->blocked;
	mutex->more->blocked = own;
	update(owner_of(mutex));
	leave();
}

void tek_ut__inherit_waited(struct tek_own *own, struct tek_mutex *mutex)
{
	struct tek_own **place;

	enter();
	for (place = &mutex->more->blocked; *place != own; place = &(*place)->waits_next)
		;
	*place = own->waits_next;
	own->waits_for = NULL;
	update(owner_of(mutex));
	leave();
}

void tek_ut__inherit_after_fork(void)
{
	atomic_store(&lock.held, 0);
}

void tek_ut__inherit_end(struct tek_uthread *thread)
{
	enter();
	thread->keys = NULL;
	leave();
}

int tek_ut__priority_of(struct tek_uthread *thread)
{
	enter();
	const struct tek_own *own = thread->keys;
	int priority = own && own->raised ? own->base : priority_now(thread);
	leave();
	return priority;
}

void tek_ut__priority_set(struct tek_uthread *thread, int priority)
{
	enter();
	struct tek_own *own = thread->keys;
	if (own && own->raised) {
		own->base = (signed char)priority;
		update(own);
	} else {
		tek_ut__priority_change(thread, (signed char)priority);
		if (own && own->waits_for)
			update(owner_of(own->waits_for));
	}
	leave();
}
