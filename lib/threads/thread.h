/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of this process as TEK knows them.
 *
 * Life of a struct tek_thread
 * ---------------------------
 *   tek__thread_new()     by the creator, before the thread exists: a slot
 *   tek__thread_born()    by the creator, if it has to do something for it at once
 *   tek__thread_begin()   by the thread itself, first thing; either may come first
 *   tek__thread_end()     by the thread itself, last thing (life/end.h)
 *
 * A thread that was not created through TEK is adopted when it, or a thread that knows its
 * pthread_t, first calls TEK. One that exits without its destructor (SYS_exit) is reaped by the
 * first thread that finds it gone.
 *
 * All functions need the lock (threads/process.h) unless noted otherwise; those for start and fork
 * do not.
 */
#ifndef TEK_THREADS_THREAD_H
#define TEK_THREADS_THREAD_H

#include "threads/member.h"
#include "threads/scheduling.h"
#include "threads/stack_use.h"
#include "threads/table.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The places in a thread's list of the read-write locks that it reads. */
enum { TEK_READ_LOCKS = 4 };

enum tek_state {
	TEK_SLOT_FREE,
	TEK_SLOT_CREATING, /* its creator is in pthread_create() */
	TEK_SLOT_LIVE,     /* handle known; tid too, unless the C library keeps it secret */
};

/* The data that a creator hands to its thread; constant once that exists. */
struct tek_birth {
	void *(*routine)(void *);
	void *argument;
	uintptr_t function;  /* what it runs: see start_routine in struct tek_record */
	uintptr_t call_site; /* of pthread_create() */
	uint64_t functions;  /* the rules that match its function: see mediate/rules.h */
	char name[16]; /* that its runtime will give it: base/start_routine.h; "": not known */
	pid_t creator; /* its kernel id */
	struct tek_base base; /* of a Fast creator: what the thread begins with */
	int nice;

	/* place/place.h */
	unsigned short place; /* the CPU that it is dealt, + 1; 0: none */
	bool fifo;            /* it gets the policy of rtfifo */
	unsigned int number;  /* of those that were dealt */
};

/* A wait for a condition variable: inherit/cond.h. The thread itself begins and ends it. */
struct tek_cond_wait {
	const void *cond, *mutex;
	unsigned int state;
	uint64_t check_ns;          /* CLOCK_MONOTONIC: its time is over; UINT64_MAX: it has none */
	uint64_t believed_until_ns; /* while it is marked; under the lock */
};

/* A wait of a Fast thread for one that is not: inherit/inversion.h. */
struct tek_inversion_wait {
	/* Set by the thread itself, without the lock; since_ns also by others with it. */
	tek_u64 since_ns; /* CLOCK_MONOTONIC; 0: it does not wait */
	uintptr_t object, call;
	unsigned char kind; /* TEK_WAITS_* */

	/* Under the lock, while since_ns is set: */
	unsigned int serial; /* the holder's; 0: not found */
	pid_t holder;
	bool has_ended, was_queried; /* the times are final; ran_ns, delayed_ns and name too */
	uint64_t lifted_ns, cpu_ns;  /* the holder's totals at first, then what it had since */
	uint64_t fast_cpu_ns;        /* the holder's CPU time while Fast */
	uint64_t ran_ns, delayed_ns; /* the kernel's CPU time and run delay */
	uintptr_t release;           /* as in struct tek_inversion */
	char name[16];               /* the holder's */
};

struct tek_thread {
	enum tek_state state;
	unsigned int index;      /* of its slot in the table */
	unsigned int generation; /* another one: the structure is free, or another thread's */
	unsigned int serial;     /* counts all threads: a later one has a greater number */
	struct tek_slot slot;
	struct tek_thread *next; /* in its hash bucket, or in the free list */

	pthread_t handle; /* 0: met by its tid only, not known yet */
	pid_t tid;
	struct tek_seen seen;
	bool group_given;       /* its group was set, not inherited */
	uint64_t start_ns;      /* CLOCK_BOOTTIME */
	struct tek_birth birth; /* all zero for the first thread and for adopted ones */
	bool inherits;          /* has still to be given birth.base and birth.nice */
	bool settled;           /* it was put to birth.place */
	bool moved;             /* from there, by the program: see place/affinity.h */
	bool born_critical;     /* has still to be taken into the Fast Region, with priority: */
	signed char born_priority;
	struct tek_stack stack;
	char name[16]; /* valid if it was set for this thread */
	bool named;
	char kernel_name[16]; /* the kernel's, as far as TEK knows: life/names.h; "": not known */
	const char *role;     /* in force: own_role, or the one that a rule gives */
	unsigned char role_bytes; /* its length, without the NUL */
	bool adopted;
	bool starting;            /* made, or being made, but it has not begun */
	bool tracked;             /* its end will be noticed by its destructor */
	bool leaving;             /* it leaves the Fast Region for good, and may not return */
	unsigned char end_rounds; /* destructor rounds seen; see end.c */

	/*
	 * Set by the thread itself, without the lock: the object that it waits for, as
	 * inherit/waits.h writes it, the same where it holds that itself, and the addresses of the
	 * read-write locks that it reads; 0: none.
	 */
	uintptr_t waits_for, waits_for_own, reads[TEK_READ_LOCKS];
	struct tek_cond_wait cond_wait; /* of a Fast thread */

	struct tek_member member; /* what the mediator knows of it */

	/* tek__thread_new() clears what is above, member.fast_cpu apart, and of this one byte. */
	char own_role[TEK_ROLE_BYTES]; /* what the program says that it is for */
	/* And of this what says that the rest is valid. */
	struct tek_inversion_wait inversion;
	/* Set by the thread itself: what it unlocked last while it was lifted, and where. */
	struct {
		uintptr_t lock, call;
	} released;
};

/* The calling thread's structure, for functions that are too short for a call; NULL: not known. */
extern __thread struct tek_thread *tek__thread_mine __attribute__((tls_model("initial-exec")));

/* The thread itself, found or adopted; NULL if there is no slot for it or it is past its end. */
struct tek_thread *tek__thread_self(void);

/*
 * The calling thread if it is known already.  Needs no lock; for the caller's own fields
 * only, and elsewhere than in the child of a fork only if tek__process_is_known().
 */
struct tek_thread *tek__thread_known_self(void);

/*
 * A thread of this process by pthread_t, found or adopted; NULL if it has ended
 * (as far as the C library can tell) or there is no slot for it.
 */
struct tek_thread *tek__thread_find(pthread_t handle);

/* A thread of this process by tid, found or adopted; 0 is the calling one. NULL as above. */
struct tek_thread *tek__thread_find_tid(pid_t tid);

/*
 * Whether the kernel has begun to end a thread of this process, or is done with it. It knows it
 * for a while after the C library has joined it. False where /proc cannot be read and it is there.
 */
bool tek__thread_is_ending(pid_t tid);

/* One that is known already, without asking the kernel whether it still exists. */
struct tek_thread *tek__thread_known(pthread_t handle);
struct tek_thread *tek__thread_known_tid(pid_t tid);

/*
 * A new structure with a slot for a thread that is about to be made, state CREATING; NULL when
 * 32,768 threads live or memory is out.
 */
struct tek_thread *tek__thread_new(void);

/* Whether tek__thread_new() needs no new memory, and the calling thread is known and not Fast. */
bool tek__thread_at_hand(void);

/* The creator knows the pthread_t, and the thread has not begun by itself: state CREATING. */
void tek__thread_born(struct tek_thread *thread, pthread_t handle);

/*
 * Called by the new thread itself, which knows its tid (base/self.h). Returns its structure from
 * here on: another one if it was adopted before it ran.
 */
struct tek_thread *tek__thread_begin(struct tek_thread *thread);

/* It never was, has ended, or is found to be gone: out of every list and out of the table. */
void tek__thread_free(struct tek_thread *thread);

/* The kernel id of the thread that a pthread_t is about; 0 if that has ended. Needs no lock. */
pid_t tek__thread_tid_of(pthread_t handle);

/* Whether its kernel thread still exists. One system call. */
bool tek__thread_exists(const struct tek_thread *thread);

/* True if a thread is left that will run its destructor, starting threads included. */
bool tek__threads_left(void);

/* So many threads are known, those that have not begun yet included. Needs the lock. */
unsigned int tek__threads_living(void);

/* The threads that were made, or are just being made, and have not begun yet: any, how many. */
bool tek__threads_are_starting(void);
unsigned int tek__threads_starting(void);

/* Call visit for every live thread. visit may free the thread it is given. */
void tek__thread_each(void (*visit)(struct tek_thread *, void *), void *context);

/*
 * Those of which tek__thread_each() tells, one by one: numbers from 0 to tek__thread_count() - 1.
 */
unsigned int tek__thread_count(void);
struct tek_thread *tek__thread_at(unsigned int number); /* NULL: there is none now */

/* In the thread itself, at its end, after everything else: without TEK from here on. */
void tek__thread_end(struct tek_thread *thread);

/* At start; in the child of any kind of fork. */
void tek__threads_start(void);
void tek__threads_forget(void);

#endif
