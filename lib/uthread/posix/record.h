/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the pthread functions know of a user-level thread, and how they tell one from a kernel thread.
 *
 * A pthread_t of a user-level thread is the address of its struct tek_uthread, whose `posix` is a record here, which
 * names the thread.  The first thread keeps the handle that the C library gave it: somebody may have asked for it
 * before the engine started.  Structures of threads and records are never given back to the kernel, so a handle whose thread
 * has been joined can be looked at: its record is somebody else's, or nobody's.  The C library's
 * handles are addresses of readable memory, too, where no address of a record lies.
 *
 * A record is made with the thread, and is given back by whichever comes last of its end and its being detached, or
 * when it has been joined.
 */
#ifndef TEK_UTHREAD_POSIX_RECORD_H
#define TEK_UTHREAD_POSIX_RECORD_H

#include "uthread/here.h"
#include "uthread/spin.h"
#include "uthread/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind.h>

struct tek_cleanup;
struct tek_handler_frame;
struct tek_pending_signal;

/* struct tek_posix.flags */
enum {
	TEK_POSIX_CANCELLED = 1 << 0, /* pthread_cancel() was called */
	TEK_POSIX_DISABLED = 1 << 1,  /* PTHREAD_CANCEL_DISABLE */
	TEK_POSIX_ASYNC = 1 << 2,     /* PTHREAD_CANCEL_ASYNCHRONOUS */
	TEK_POSIX_EXITING = 1 << 3,   /* it ends: cancelling it does nothing any more */
	TEK_POSIX_DETACHED = 1 << 4,
	TEK_POSIX_ENDED = 1 << 5,     /* it will not use its record any more */
	TEK_POSIX_SIGNALLED = 1 << 6, /* something may be in `pending` */
};

struct tek_posix {
	_Atomic(struct tek_uthread *) thread; /* whose record it is; NULL: nobody's */
	struct tek_posix *next_free;
	atomic_uint flags;

	/* Written before it runs, or by itself. */
	void *(*routine)(void *);
	void *argument;
	void *result;
	bool c11;   /* routine is a thrd_start_t */
	bool begun; /* it has come to its routine */
	struct tek_cleanup
		*cleanups; /* of programs compiled without exceptions, the latest first: exit.h */
	struct _pthread_cleanup_buffer *old_cleanups; /* of programs of long ago */
	struct _Unwind_Exception unwind;
	_Atomic(struct tek_uthread *) joins; /* whom it waits for in pthread_join() */

	/* As pthread_getattr_np() tells. */
	char *stack;
	size_t stack_bytes, guard_bytes;
	size_t extra_guard; /* of the stack, what is guard beyond the engine's own */
	bool own_stack;     /* memory of the program's own */

	/* Scheduling as POSIX has it; the engine's own is in struct tek_uthread.sched. */
	_Atomic int policy, priority;
	unsigned short entered; /* tek_critical_enter() without its leave(), so often; by itself */
	cpu_set_t *cpus;        /* as it was set; NULL: it was not. malloc(3) */
	size_t cpus_bytes;

	/* Signals: signal.h. */
	struct tek_spin lock; /* of the next ones */
	struct tek_pending_signal *first, *last;
	_Atomic uint64_t pending; /* which are in that list */
	_Atomic uint64_t awaited; /* that sigwait() waits for */
	unsigned long handlers;   /* so many handlers it has run */
	unsigned long failing;    /* so many of those were installed without SA_RESTART */
	unsigned int
		level; /* what `defer` is while the program's code runs: 0, or 1 in a handler */
	bool taking;   /* a signal is being taken: its handler may run one level deeper */
	bool aside;    /* it waits in the kernel without its worker: aside.h */
	struct tek_handler_frame *frames; /* handlers that it is in, the innermost first */
};

/* The program's first thread. Zero until the engine runs. */
struct tek_posix_first {
	struct tek_uthread *thread;
	pthread_t handle;
};
extern struct tek_posix_first tek__posix_first __attribute__((visibility("hidden")));

static inline pthread_t tek__posix_handle(struct tek_uthread *thread)
{
	return thread == tek__posix_first.thread ? tek__posix_first.handle : (pthread_t)thread;
}

/* A new one, zero but for `thread`; NULL: there is no memory. Between tek__enter() and tek__leave(). */
struct tek_posix *tek__posix_new(void);

/* Nobody's from now on. Between tek__enter() and tek__leave(). */
void tek__posix_free(struct tek_posix *posix);

/* `thread` has this one. Before anybody knows the thread. */
void tek__posix_give(struct tek_posix *posix, struct tek_uthread *thread);

enum tek_posix_kind {
	TEK_POSIX_LIVE,    /* a user-level thread: not joined, nor ended as a detached one */
	TEK_POSIX_GONE,    /* it was one */
	TEK_POSIX_FOREIGN, /* the C library's: it knows */
};

/* What a handle is; *found is its record if it is live. */
enum tek_posix_kind tek__posix_find(pthread_t handle, struct tek_posix **found);

/* Of the calling thread; NULL: it is no user-level thread, or the engine does not run yet. */
static inline struct tek_posix *tek__posix_self(void)
{
	const struct tek_uthread *self = tek__here_self();
	return self ? self->posix : NULL;
}

static inline struct tek_uthread *tek__posix_thread(const struct tek_posix *posix)
{
	return atomic_load_explicit(&posix->thread, memory_order_relaxed);
}

static inline unsigned int tek__posix_flags(const struct tek_posix *posix)
{
	return atomic_load_explicit(&posix->flags, memory_order_relaxed);
}

/* In the child of fork(). */
void tek__posix_records_after_fork(void);

#endif
