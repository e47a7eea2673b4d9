/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/exit.h"

#include "base/next.h"
#include "uthread/engine.h"
#include "uthread/key.h"
#include "uthread/posix/signal.h"
#include "uthread/posix/thread.h"
#include "uthread/table.h"
#include "uthread/tls.h"
#include "uthread/worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct tek_cleanup) <= sizeof(__pthread_unwind_buf_t),
	       "it lies in memory that pthread.h sets aside");

atomic_uint tek_ut__posix_threads = 1;

void tek_ut__cleanup_push(struct tek_cleanup *cleanup, uintptr_t frame)
{
	struct tek_posix *self = tek_ut__posix_self();

	cleanup->frame = frame;
	cleanup->previous = self->cleanups;
	self->cleanups = cleanup;
}

void tek_ut__cleanup_pop(struct tek_cleanup *cleanup)
{
	tek_ut__posix_self()->cleanups = cleanup->previous;
}

void tek_ut__cleanup_push_old(struct _pthread_cleanup_buffer *buffer, void (*routine)(void *),
			      void *argument)
{
	struct tek_posix *self = tek_ut__posix_self();

	buffer->__routine = routine;
	buffer->__arg = argument;
	buffer->__prev = self->old_cleanups;
	self->old_cleanups = buffer;
}

void tek_ut__cleanup_pop_old(struct _pthread_cleanup_buffer *buffer, bool execute)
{
	tek_ut__posix_self()->old_cleanups = buffer->__prev;
	if (execute)
		buffer->__routine(buffer->__arg);
}

void tek_ut__posix_finish(void)
{
	struct tek_uthread *thread = tek_ut__here_self();
	struct tek_posix *self = thread->posix;

	/*
	 * On a stack of the program's own it skips that: a thread that knows of its end wants the
	 * stack back.
	 */
	if (!self->own_stack)
		tek_ut__signals_take_last();
	atomic_fetch_or(&self->flags, TEK_POSIX_EXITING);
	if (tek_ut__engine.own_tls)
		tek_ut__tls_end_current();
	tek_ut__keys_end();
	if (tek_ut__engine.own_tls) /* objects that those destructors have made */
		tek_ut__tls_end_current();
	tek_ut__posix_leave_stack(self);
	const unsigned int threads = atomic_fetch_sub(&tek_ut__posix_threads, 1) - 1;
	if (!threads)
		exit(0);
	/*
	 * From here on no thread reads its record for it, because it does not leave the engine any
	 * more.
	 */
	tek_ut__enter();
	tek_ut__table_ended(thread, threads);
	if (tek_ut__signals_end(self) & TEK_POSIX_DETACHED)
		tek_ut__posix_free(self);
}

static _Noreturn void end(void *result)
{
	tek_ut__posix_finish();
	tek_ut__end(result);
}

/*
 * The unwinder has reached a frame: all below `frame` is finished. The jump buffer of a function is
 * jumped to while its frame still exists.
 */
static void run_listed(struct tek_posix *self, uintptr_t frame)
{
	struct _pthread_cleanup_buffer *old = self->old_cleanups;
	if (old && (uintptr_t)old < frame) {
		self->old_cleanups = old->__prev;
		old->__routine(old->__arg);
		run_listed(self, frame);
		return;
	}
	struct tek_cleanup *cleanup = self->cleanups;
	if (!cleanup || cleanup->frame > frame)
		return;
	self->cleanups = cleanup->previous;
	jmp_buf jump;
	memcpy(&jump, &cleanup->jump, sizeof(cleanup->jump));
	jump[0].__mask_was_saved = 0;
	TEK_REAL(longjmp)(jump, 1);
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
				struct _Unwind_Exception *exception,
				struct _Unwind_Context *context, void *argument)
{
	struct tek_posix *self = argument;
	const bool last = actions & _UA_END_OF_STACK;

	(void)version, (void)class, (void)exception;
	run_listed(self, last ? UINTPTR_MAX : (uintptr_t)_Unwind_GetCFA(context));
	if (last)
		end(self->result);
	return _URC_NO_REASON;
}

/* A handler caught it and did not rethrow it. */
static void caught(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
	static const char text[] = "FATAL: exception not rethrown\n";

	(void)reason, (void)exception;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}

static _Noreturn void unwind(struct tek_posix *self)
{
	self->unwind.exception_class = 0;
	self->unwind.exception_cleanup = caught;
	_Unwind_ForcedUnwind(&self->unwind, stop, self);
	/* A frame is unreadable: listed handlers are run, the rest cannot be. */
	run_listed(self, UINTPTR_MAX);
	end(self->result);
}

_Noreturn void tek_ut__cleanup_next(void)
{
	unwind(tek_ut__posix_self());
}

_Noreturn void tek_ut__posix_exit(void *result)
{
	struct tek_posix *self = tek_ut__posix_self();

	self->result = result;
	atomic_fetch_or(&self->flags, TEK_POSIX_EXITING);
	unwind(self);
}
