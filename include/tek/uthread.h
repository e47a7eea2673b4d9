/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tek/uthread.h - user-level threads: threads that are switched without the kernel.
 *
 * A user-level thread has a stack and registers of its own and runs on a worker; a worker runs one
 * at a time and is carried by a kernel thread.  With one worker all threads share one CPU and
 * nothing needs atomic instructions; with several they run in parallel and move from worker to
 * worker.  Which thread runs next, and for how long, is up to the scheduler (rr, mlfq, psjf, fifo,
 * steal).
 *
 * Life
 * ----
 *   tek_uthread_start()   once; the calling thread becomes the first user-level thread.  Or the
 *                         first tek_uthread_create() does that by itself.
 *   tek_uthread_create()  from here on the new thread may run, and end, at any moment
 *   tek_uthread_exit(), or the return of its routine: destructors of keys are called, then it ends
 *   tek_uthread_join() or tek_uthread_detach(), once for each thread; afterwards its handle must
 *   not be used
 * The engine ends with the process, when main() returns or somebody calls exit(3).
 *
 * Preemption
 * ----------
 * A thread that has used up its quantum is interrupted and the next one runs, unless it is in the C
 * library, an allocator, a signal handler, or a section between tek_uthread_defer_begin() and
 * tek_uthread_defer_end():  then that happens when it has left.  Off with the option preempt=off;
 * then threads switch only where they call a function here that waits or yields.
 *
 * What threads share
 * ------------------
 * Threads have the thread-local storage of their worker's kernel thread: errno, __thread variables,
 * what pthread_self(3) says.  With one worker that is shared by all, with several it is another one
 * after each switch.  Use keys (tek_uthread_key_create()) for what belongs to a thread, and read
 * errno before anything that may switch; with preemption that is: in a section of
 * tek_uthread_defer_begin().
 * A call of the C library or the kernel that blocks (read, sleep, pthread_mutex_lock) blocks its
 * worker, until the engine notices and gives the worker another kernel thread; with one worker it
 * does so with preempt=klt only.  Unless preempt=off, a tick may interrupt the call: sleep, poll
 * and others that are not restarted (signal(7)) then end early, with EINTR.  To wait for a time use
 * tek_uthread_sleep().  Programs that are to run unmodified want libtek-uthread.so and `tek run
 * --model` instead of this library.
 *
 * How to get it: compile and link with `pkg-config --cflags --libs tek-uthread-native`, or link
 * with -ltek-uthread-native.  libtek-uthread(7) has an example.
 *
 * Callers
 * -------
 * Unless a function says otherwise
 *   - it may be called by any user-level thread, and before the engine runs by the program's only
 *     thread,
 *   - it must not be called in a signal handler,
 *   - kernel threads that the program has beside (pthread_create(3)) may call it only if the engine
 *     was started with the option `foreign`; when they wait, they wait in the kernel,
 *   - it returns 0 or an error number, and leaves errno alone.
 * A function that says "may switch" may let other threads run before it returns, and return on
 * another worker; inside a deferred section it stays on its worker, and others run meanwhile.
 *
 * Times are points of CLOCK_MONOTONIC (struct timespec, tv_nsec 0 to 999,999,999) or durations in
 * nanoseconds.
 *
 * Objects (mutexes and so on) of which every byte is zero are ready for use; those that are
 * initialised in another way say so.  An object may be used by the threads of one process.  It must
 * not be copied.  The thread that was the last to use one, by whatever synchronisation, may
 * destroy it and free its memory; to destroy one that is in use is an error (EBUSY).  Members whose
 * names end in an underscore are not for programs.
 */
#ifndef TEK_UTHREAD_H
#define TEK_UTHREAD_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the engine ---- */

/*
 * Start the engine: the calling thread becomes the first user-level thread.  `options` is a list
 * with commas, as in the variable TEK_UTHREAD, which is read first and which this list overrides;
 * NULL: only the variable counts.  What is wrong in the variable is told on standard error and
 * passed by.
 *
 *   workers=N       1 to 256; default: the CPUs that the process may use
 *   sched=NAME      rr (default), mlfq, psjf, fifo, steal
 *   quantum=T       50us to 10s; default 5ms
 *   preempt=MODE    defer (default), klt, off
 *   promote=N       of mlfq: after so many quanta the lowest level goes to the top; default 200
 *   pool=N          for fifo: make N threads with their stacks now, and never have more at the same
 *                   time
 *   lock=HOW        of fifo: giant, worker (default), object
 *   stack=SIZE      of threads that say nothing else, 16K to 1G; default 64K
 *   pin             each worker stays on one CPU
 *   trace=PATH      the last one: writes down who ran where, for `tek trace`
 *   foreign         kernel threads of the program's own may use this library
 *
 * `wrong` may be NULL; if an option is wrong, *wrong is what is wrong with the first one: a string
 * that stays.
 * Errors: EINVAL: an option is wrong, nothing was started; EBUSY: it runs already; ENOMEM, EAGAIN:
 * the kernel has no memory or no timers left, and the engine cannot be used.
 */
int tek_uthread_start(const char *options, const char **wrong);

/*
 * fork(2): the child has the thread that called it, on one worker, with the same options; the
 * others are not there, as with pthreads. What they held stays locked.  In the child of a kernel
 * thread, and of vfork(2), this library cannot be used.
 */

/* ---- threads ---- */

/* A thread. Valid until it has been joined, or has ended if it was detached. */
typedef struct tek_uthread *tek_uthread_t;

#define TEK_UTHREAD_STACK_LEAST 16384
#define TEK_UTHREAD_NAME_BYTES 16 /* of a name, with its NUL */

/*
 * Priorities. A greater one goes first: under fifo, among critical threads, and of those who wait
 * for an object.
 */
#define TEK_UTHREAD_PRIORITY_MIN 0
#define TEK_UTHREAD_PRIORITY_MAX 99

/*
 * How a thread is to be. All zero: as the engine's options have it, and with the priority of its
 * creator.
 */
struct tek_uthread_attributes {
	/*
	 * Less than TEK_UTHREAD_STACK_LEAST counts as that; 0: the default.  With `stack`: its
	 * size, and less is refused (EINVAL).
	 */
	size_t stack_bytes;
	/*
	 * Memory of the program's own, aligned to 16 bytes and at least that large.  It lasts
	 * until the thread has been joined, or for ever if it is detached.  NULL: from the pool,
	 * with a guard page.
	 */
	void *stack;
	int detached;     /* 1: it is not joined */
	int critical;     /* 1: it goes before all threads that are not, in every scheduler */
	int has_priority; /* 1: `priority` counts */
	int priority;     /* TEK_UTHREAD_PRIORITY_MIN to TEK_UTHREAD_PRIORITY_MAX */
	const char *name; /* as for tek_uthread_set_name(); NULL: none */
};

/*
 * Create a thread that runs routine(argument).  `attributes` may be NULL.  *thread is set before
 * the thread runs.  Starts the engine if it does not run: as tek_uthread_start(NULL, NULL).
 * Errors: EAGAIN: there is no memory for it, or the pool is used up; EINVAL: an attribute; ERANGE:
 * the name is too long; those of tek_uthread_start().
 */
int tek_uthread_create(tek_uthread_t *thread, const struct tek_uthread_attributes *attributes,
		       void *(*routine)(void *), void *argument);

/*
 * Wait until a thread has ended.  *result is what its routine returned or tek_uthread_exit() was
 * given; `result` may be NULL.  tek_uthread_join_until() waits until `deadline` at most, and then
 * the thread can be joined still.  May switch; not by kernel threads.
 * Errors: EDEADLK: that is the calling thread; EINVAL: it is detached, or somebody else joins it;
 * ETIMEDOUT.
 */
int tek_uthread_join(tek_uthread_t thread, void **result);
int tek_uthread_join_until(tek_uthread_t thread, void **result, const struct timespec *deadline);

/*
 * The thread gives back what it has when it ends; it is not joined. Errors: EINVAL: it is detached,
 * or is joined.
 */
int tek_uthread_detach(tek_uthread_t thread);

/*
 * End the calling thread.  Its stack is not unwound.  The first thread may do so, too: the process
 * goes on as long as somebody calls exit(3).  Not by kernel threads, not in a deferred section.
 */
__attribute__((noreturn)) void tek_uthread_exit(void *result);

/* Let other threads run that are ready. May switch; returns at once if there are none. */
void tek_uthread_yield(void);

/* The calling thread; NULL: it is no user-level thread. */
tek_uthread_t tek_uthread_self(void);

/* 1: the same thread; 0: not. */
int tek_uthread_equal(tek_uthread_t one, tek_uthread_t other);

/*
 * Its number: 1 is the first thread's, and none is given twice. In `tek ps`, traces and the
 * debugger.
 */
uint64_t tek_uthread_id(tek_uthread_t thread);

/*
 * The name of a thread, for `tek ps`, traces, reports and the debugger: up to 15 bytes.  `bytes` is
 * the size of the room for it.  Errors: ERANGE: it does not fit.
 */
int tek_uthread_set_name(tek_uthread_t thread, const char *name);
int tek_uthread_get_name(tek_uthread_t thread, char *name, size_t bytes);

/*
 * The priority of a thread, without what it inherits by mutexes.  May switch, if somebody goes
 * first now.
 * Errors: EINVAL: it is out of range.
 */
int tek_uthread_set_priority(tek_uthread_t thread, int priority);
int tek_uthread_get_priority(tek_uthread_t thread, int *priority);

/*
 * Whether the calling thread is critical, 1 or 0: it goes before all that are not, in every
 * scheduler; critical ones among themselves by priority.  Errors: EINVAL: neither 0 nor 1; EPERM:
 * the caller is no user-level thread.
 */
int tek_uthread_set_critical(int critical);

/* Sleep for so long at least, or until then. May switch. */
void tek_uthread_sleep(uint64_t ns);
void tek_uthread_sleep_until(const struct timespec *time);

/*
 * A section in which the calling thread is not preempted and stays on its worker.  Sections nest.
 * Keep them short: of a worker's other threads none runs meanwhile, unless the section waits.  Two
 * instructions each.
 */
void tek_uthread_defer_begin(void);
void tek_uthread_defer_end(void);

/* ---- mutexes ---- */

enum {
	TEK_UTHREAD_MUTEX_NORMAL = 0,     /* who locks it twice waits for ever */
	TEK_UTHREAD_MUTEX_RECURSIVE = 1,  /* its owner may lock it again, and unlocks it as often */
	TEK_UTHREAD_MUTEX_ERRORCHECK = 2, /* EDEADLK and EPERM instead of what is not defined */
	/* One of those, and: */
	TEK_UTHREAD_MUTEX_ROBUST = 16,  /* if its owner ends, the next one is told: EOWNERDEAD */
	TEK_UTHREAD_MUTEX_INHERIT = 32, /* its owner is as urgent as those who wait for it */
};

typedef struct tek_uthread_mutex {
	unsigned int state_, count_;
	void *owner_;
	int kind_;
	void *first_, *last_;
} tek_uthread_mutex_t;

#define TEK_UTHREAD_MUTEX_INITIALIZER \
	{ \
		0, 0, 0, TEK_UTHREAD_MUTEX_NORMAL, 0, 0 \
	}
#define TEK_UTHREAD_MUTEX_RECURSIVE_INITIALIZER \
	{ \
		0, 0, 0, TEK_UTHREAD_MUTEX_RECURSIVE, 0, 0 \
	}
#define TEK_UTHREAD_MUTEX_ERRORCHECK_INITIALIZER \
	{ \
		0, 0, 0, TEK_UTHREAD_MUTEX_ERRORCHECK, 0, 0 \
	}

/*
 * Errors: EINVAL: no such kind; ENOMEM: of the last two kinds, which have memory beside until they
 * are destroyed.
 */
int tek_uthread_mutex_init(tek_uthread_mutex_t *mutex, int kind);
int tek_uthread_mutex_destroy(tek_uthread_mutex_t *mutex);

/*
 * Lock it.  If it is free that is one instruction; else the calling thread waits.  A thread that
 * waits long is handed the mutex, so no thread starves.  May switch.
 * Errors: EDEADLK: error-checking, the caller has it; EAGAIN: recursive, 2^32 times, or there is no
 * memory for what robust ones need; EBUSY (trylock); ETIMEDOUT, EINVAL: `deadline` is no time
 * (looked at only if it has to wait); EOWNERDEAD: robust, the caller has it, its last owner ended
 * with it; ENOTRECOVERABLE: robust, nobody made it consistent, nobody has it ever again.
 */
int tek_uthread_mutex_lock(tek_uthread_mutex_t *mutex);
int tek_uthread_mutex_trylock(tek_uthread_mutex_t *mutex);
int tek_uthread_mutex_lock_until(tek_uthread_mutex_t *mutex, const struct timespec *deadline);

/* Errors: EPERM: the caller does not have it; not found out of normal ones. */
int tek_uthread_mutex_unlock(tek_uthread_mutex_t *mutex);

/*
 * After EOWNERDEAD: what it protects is in order again. Errors: EINVAL: there is no need, or it is
 * not robust.
 */
int tek_uthread_mutex_consistent(tek_uthread_mutex_t *mutex);

/* ---- condition variables ---- */

typedef struct tek_uthread_cond {
	unsigned int guard_, process_;
	void *first_, *last_;
} tek_uthread_cond_t;

#define TEK_UTHREAD_COND_INITIALIZER \
	{ \
		0, 0, 0, 0 \
	}

int tek_uthread_cond_init(tek_uthread_cond_t *cond);
int tek_uthread_cond_destroy(tek_uthread_cond_t *cond);

/*
 * Unlock the mutex and wait, in one; the mutex is locked again on return, unless the error is EPERM
 * or EINVAL.  It may return without a signal: look at what is waited for again.  May switch.
 * Errors: ETIMEDOUT; EINVAL: `deadline` is no time; those of locking and unlocking the mutex.
 */
int tek_uthread_cond_wait(tek_uthread_cond_t *cond, tek_uthread_mutex_t *mutex);
int tek_uthread_cond_wait_until(tek_uthread_cond_t *cond, tek_uthread_mutex_t *mutex,
				const struct timespec *deadline);

/* Wake one of those who wait, the most urgent first and then the longest waiting; or all. */
int tek_uthread_cond_signal(tek_uthread_cond_t *cond);
int tek_uthread_cond_broadcast(tek_uthread_cond_t *cond);

/*
 * ---- read-write locks ----
 *
 * What is preferred is that among threads of priority 0.  Others come before them, by priority, and
 * among equals writers first; and a reader whose priority is not 0 waits if a writer waits who is
 * not of a lesser one.
 */

enum {
	TEK_UTHREAD_RWLOCK_PREFER_READER = 0, /* a thread may read-lock it several times */
	TEK_UTHREAD_RWLOCK_PREFER_WRITER =
		2, /* not so: it would wait for a writer who waits for it */
};

typedef struct tek_uthread_rwlock {
	unsigned int state_;
	uintptr_t writer_, reserved_[2];
	void *first_, *last_;
	unsigned char kind_;
} tek_uthread_rwlock_t;

#define TEK_UTHREAD_RWLOCK_INITIALIZER \
	{ \
		0, 0, {0, 0}, 0, 0, 0 \
	}

/* Errors: EINVAL: no such kind. */
int tek_uthread_rwlock_init(tek_uthread_rwlock_t *lock, int kind);
int tek_uthread_rwlock_destroy(tek_uthread_rwlock_t *lock);

/*
 * May switch, but for those that try.  Errors: EBUSY (try); EDEADLK: the caller has it as a writer;
 * EAGAIN: 2^27 readers have it; ETIMEDOUT, EINVAL: `deadline` is no time.
 */
int tek_uthread_rwlock_rdlock(tek_uthread_rwlock_t *lock);
int tek_uthread_rwlock_tryrdlock(tek_uthread_rwlock_t *lock);
int tek_uthread_rwlock_rdlock_until(tek_uthread_rwlock_t *lock, const struct timespec *deadline);
int tek_uthread_rwlock_wrlock(tek_uthread_rwlock_t *lock);
int tek_uthread_rwlock_trywrlock(tek_uthread_rwlock_t *lock);
int tek_uthread_rwlock_wrlock_until(tek_uthread_rwlock_t *lock, const struct timespec *deadline);

/* Errors: EPERM: nobody has it. */
int tek_uthread_rwlock_unlock(tek_uthread_rwlock_t *lock);

/* ---- barriers ---- */

typedef struct tek_uthread_barrier {
	unsigned int word_[4];
	void *first_, *last_;
} tek_uthread_barrier_t;

#define TEK_UTHREAD_BARRIER_SERIAL_THREAD (-1)

/* `count` threads make a round: 1 to 2^31 - 1. It has no static initialiser. Errors: EINVAL. */
int tek_uthread_barrier_init(tek_uthread_barrier_t *barrier, unsigned int count);
int tek_uthread_barrier_destroy(tek_uthread_barrier_t *barrier);

/*
 * Wait until all of a round are there: 0, or of one of them TEK_UTHREAD_BARRIER_SERIAL_THREAD.  May
 * switch.
 * Errors: EINVAL: it was never initialised, as far as can be seen.
 */
int tek_uthread_barrier_wait(tek_uthread_barrier_t *barrier);

/* ---- semaphores ---- */

typedef struct tek_uthread_semaphore {
	unsigned int word_[4];
	void *first_, *last_;
} tek_uthread_semaphore_t;

/* With a value of 0 to 2^31 - 1. Errors: EINVAL. */
int tek_uthread_semaphore_init(tek_uthread_semaphore_t *semaphore, unsigned int value);
int tek_uthread_semaphore_destroy(tek_uthread_semaphore_t *semaphore);

/*
 * Take one, or wait for one. May switch. Errors: EAGAIN (try); ETIMEDOUT, EINVAL: `deadline` is no
 * time.
 */
int tek_uthread_semaphore_wait(tek_uthread_semaphore_t *semaphore);
int tek_uthread_semaphore_trywait(tek_uthread_semaphore_t *semaphore);
int tek_uthread_semaphore_wait_until(tek_uthread_semaphore_t *semaphore,
				     const struct timespec *deadline);

/* Add one, or give it to who waits longest. Errors: EOVERFLOW. */
int tek_uthread_semaphore_post(tek_uthread_semaphore_t *semaphore);

/* Its value now, 0 if somebody waits. */
int tek_uthread_semaphore_value(tek_uthread_semaphore_t *semaphore);

/* ---- once ---- */

typedef int tek_uthread_once_t;
#define TEK_UTHREAD_ONCE_INITIALIZER 0

/* Run the routine unless it has run; return when it has, by whomever. May switch. */
int tek_uthread_once(tek_uthread_once_t *once, void (*routine)(void));

/* ---- keys: pointers of each thread's own ---- */

typedef unsigned int tek_uthread_key_t;

/*
 * The destructor, if it is not NULL, is called by each thread that ends with a value that is not
 * NULL, and again if destructors set values, up to 4 times.  Errors: EAGAIN: there are 1,024 keys
 * already.
 */
int tek_uthread_key_create(tek_uthread_key_t *key, void (*destructor)(void *));

/*
 * Forget a key with all its values; no destructors are called. Errors: EINVAL: there is no such
 * key.
 */
int tek_uthread_key_delete(tek_uthread_key_t key);

/*
 * The calling thread's value; NULL until it sets one. Errors of setting: EINVAL: there is no such
 * key; ENOMEM.
 */
void *tek_uthread_key_get(tek_uthread_key_t key);
int tek_uthread_key_set(tek_uthread_key_t key, const void *value);

#ifdef __cplusplus
}
#endif

#endif
