/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/held.h"

#include "preload/uthread/real.h"
#include "uthread/interrupted.h"
#include "uthread/posix/aside.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/interrupt.h"
#include "uthread/posix/signal.h"
#include "uthread/tick.h"
#include "uthread/tls_glibc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

/* How libthread_db is told of a field: _thread_db_*. */
struct description {
	uint32_t bits, count, offset;
};

static size_t note_lies_at;
static unsigned int note; /* its bit; 0: not known */

static unsigned int *note_of(uintptr_t pointer)
{
	return (unsigned int *)(void *)(tek__tls_structure(pointer) + note_lies_at);
}

static unsigned int read_note(uintptr_t pointer)
{
	return __atomic_load_n(note_of(pointer), __ATOMIC_RELAXED);
}

void tek__held_start(void)
{
	const struct description *field = dlsym(RTLD_NEXT, "_thread_db_pthread_cancelhandling");
	const uintptr_t self = tek__tls_pointer();
	int old;

	if (!field || field->bits != 32 || !self)
		return;
	note_lies_at = field->offset;
	/* The same as a program asks for that can be cancelled everywhere. */
	const unsigned int before = read_note(self);
	if (TEK_REAL(pthread_setcanceltype)(PTHREAD_CANCEL_ASYNCHRONOUS, &old) != 0)
		return;
	const unsigned int during = read_note(self);
	TEK_REAL(pthread_setcanceltype)(old, NULL);
	const unsigned int changed = before ^ during;
	if (changed && !(changed & (changed - 1)) && (during & changed) &&
	    read_note(self) == before)
		note = changed;
}

bool tek__held_can_end(const struct tek_uthread *thread)
{
	return note && thread->tls && (read_note(thread->tls) & note);
}

void tek__held(struct tek_uthread *thread, ucontext_t *context)
{
	struct tek_posix *self = thread->posix;

	if (!self || !(tek__posix_flags(self) & (TEK_POSIX_SIGNALLED | TEK_POSIX_CANCELLED)))
		return;
	/* Then it goes on to wait without its worker, which it has while handlers run. */
	const bool aside = self->aside && !tek__here_entry();
	if (tek__cancel_is_due() && tek__held_can_end(thread)) {
		/* It is not in that call any more; who has this storage next is not, either. */
		__atomic_fetch_and(note_of(thread->tls), ~note, __ATOMIC_RELAXED);
		self->aside = false;
		tek__tick_unblock();
		tek__posix_exit(PTHREAD_CANCELED);
	}
	/* What it holds there it keeps until the handlers have run: they do not give way. */
	const unsigned long failing = self->failing;
	tek__here_defer();
	self->level++;
	tek__tick_unblock(); /* a handler may wait, or never return */
	tek__posix_resume(thread, false);
	self->level--;
	tek__here_undefer();
	if (aside) {
		tek__aside_begin();
		if (self->failing != failing)
			tek__interrupted_fail(context);
	}
}
