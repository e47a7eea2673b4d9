/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a user-level thread of a pthread program ends.
 *
 * pthread_exit() and cancellation unwind the stack, frame by frame, so that clean-up handlers of
 * code with unwind tables and destructors of C++ run.  Clean-up handlers of C that was compiled
 * without exceptions are jump buffers in a list: each is jumped to when the unwinder has reached
 * its frame, runs its handler, and lets the unwinding go on. Then come, as in the C library,
 * destructors of thread_local objects and of keys.
 */
#ifndef TEK_UTHREAD_POSIX_EXIT_H
#define TEK_UTHREAD_POSIX_EXIT_H

#include "uthread/posix/record.h"

#include <setjmp.h>

/*
 * The macros of pthread.h have this on the stack: __pthread_unwind_buf_t. The four words at its end
 * are ours.
 */
struct tek_cleanup {
	struct {
		__jmp_buf registers;
		int mask_was_saved;
	} jump;
	struct tek_cleanup *previous;
	uintptr_t frame;   /* the stack pointer in the function that has it */
	void *cancel_type; /* before, of the _defer kind: as an integer */
	void *unused;
};

/* __pthread_register_cancel() and __pthread_unregister_cancel(). By a user-level thread. */
void tek_ut__cleanup_push(struct tek_cleanup *cleanup, uintptr_t frame);
void tek_ut__cleanup_pop(struct tek_cleanup *cleanup);

/* The older kind: _pthread_cleanup_push() and _pthread_cleanup_pop(). */
void tek_ut__cleanup_push_old(struct _pthread_cleanup_buffer *buffer, void (*routine)(void *),
			      void *argument);
void tek_ut__cleanup_pop_old(struct _pthread_cleanup_buffer *buffer, bool execute);

/* __pthread_unwind_next(): a handler from the list has run. */
_Noreturn void tek_ut__cleanup_next(void);

/* pthread_exit(3). Not deferred. */
_Noreturn void tek_ut__posix_exit(void *result);

/*
 * The start routine of the calling thread has returned, and all code of the program for its end has
 * run. From then on it is between tek_ut__enter() and tek_ut__leave(); only its end remains, as the
 * engine's (thread.h).
 */
void tek_ut__posix_finish(void);

/* The number of threads of the program that have not ended. The last one ends the process. */
extern atomic_uint tek_ut__posix_threads __attribute__((visibility("hidden")));

#endif
