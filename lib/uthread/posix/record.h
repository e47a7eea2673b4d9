/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The pthread functions' state of a user-level thread, and how they distinguish it from a kernel
 * thread.
 *
 * A pthread_t of a user-level thread is the address of its struct tek_uthread. Its `posix` is a
 * record here, which names the thread. The first thread keeps the handle from the C library: the
 * program may have stored that before the engine started. Structures of threads and records are
 * never given back to the kernel. So a handle stays readable after its thread was joined: its
 * record is another thread's, or free. The C library's handles are addresses of readable memory,
 * too, where no address of a record lies.
 *
 * A record is made with the thread. It is released at its end or its detaching, whichever comes
 * last, or when it was joined.
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
	TEK_POSIX_ENDED = 1 << 5,     /* it does not use its record any more */
	TEK_POSIX_SIGNALLED = 1 << 6, /* `pending` may have signals */
};

struct tek_posix {
	_Atomic(struct tek_uthread *) thread; /* the thread of this record; NULL: it is free */
	struct tek_posix *next_free;
	atomic_uint flags;

	/* Written before it runs, or by itself. */
	void *(*routine)(void *);
	void *argument;
	void *result;
	bool c11;   /* routine is a thrd_start_t */
	bool begun; /* it has reached its routine */
	struct tek_cleanup
		*cleanups; /* of programs compiled without exceptions, the latest first: exit.h */
	struct _pthread_cleanup_buffer *old_cleanups; /* of programs for old C libraries */
	struct _Unwind_Exception unwind;
	_Atomic(struct tek_uthread *) joins; /* the thread that it waits for in pthread_join() */

	/* As pthread_getattr_np() reports. */
	char *stack;
	size_t stack_bytes, guard_bytes;
	size_t extra_guard; /* of the stack: the guard beyond the engine's own */
	bool own_stack;     /* memory of the program's own */

	/* Scheduling as POSIX has it; the engine's own is in struct tek_uthread.sched. */
	_Atomic int policy, priority;
	unsigned short entered; /* number of tek_critical_enter() without its leave(); by itself */
	cpu_set_t *cpus;        /* as it was set; NULL: it was not. malloc(3) */
	size_t cpus_bytes;

	/* Signals: signal.h. */
	struct tek_spin lock; /* of the next ones */
	struct tek_pending_signal *first, *last;
	_Atomic uint64_t pending; /* which are in that list */
	_Atomic uint64_t awaited; /* that sigwait() waits for */
	unsigned long handlers;   /* number of handlers that it has run */
	unsigned long failing;    /* number of those that were installed without SA_RESTART */
	unsigned int level;       /* `defer` while the program's code runs: 0, or 1 in a handler */
	bool taking; /* a signal is being taken: its handler may run one level deeper */
	bool aside;  /* it waits in the kernel without its worker: aside.h */
	struct tek_handler_frame *frames; /* handlers that it is in, the innermost first */
};

/* The program's first thread. Zero until the engine runs. */
struct tek_posix_first {
	struct tek_uthread *thread;
	pthread_t handle;
};
extern struct tek_posix_first tek_ut__posix_first __attribute__((visibility("hidden")));

static inline pthread_t tek_ut__posix_handle(struct tek_uthread *thread)
{
	return thread == tek_ut__posix_first.thread ? tek_ut__posix_first.handle
						    : (pthread_t)thread;
}

/*
 * A new one, zero but for `thread`; NULL: no memory. Between tek_ut__enter() and tek_ut__leave().
 */
struct tek_posix *tek_ut__posix_new(void);

/* It is free from now on. Between tek_ut__enter() and tek_ut__leave(). */
void tek_ut__posix_free(struct tek_posix *posix);

/* `thread` has this record. Before any other thread knows it. */
void tek_ut__posix_give(struct tek_posix *posix, struct tek_uthread *thread);

enum tek_posix_kind {
	TEK_POSIX_LIVE,    /* a user-level thread: not joined, nor ended as a detached one */
	TEK_POSIX_GONE,    /* it was one */
	TEK_POSIX_FOREIGN, /* the C library's */
};

/* The kind of a handle; *found is its record if it is live. */
enum tek_posix_kind tek_ut__posix_find(pthread_t handle, struct tek_posix **found);

/* The calling thread's; NULL: it is no user-level thread, or the engine does not run yet. */
static inline struct tek_posix *tek_ut__posix_self(void)
{
	const struct tek_uthread *self = tek_ut__here_self();
	return self ? self->posix : NULL;
}

static inline struct tek_uthread *tek_ut__posix_thread(const struct tek_posix *posix)
{
	return atomic_load_explicit(&posix->thread, memory_order_relaxed);
}

static inline unsigned int tek_ut__posix_flags(const struct tek_posix *posix)
{
	return atomic_load_explicit(&posix->flags, memory_order_relaxed);
}

/* In the child of fork(). */
void tek_ut__posix_records_after_fork(void);

#endif
