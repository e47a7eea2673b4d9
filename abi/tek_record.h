/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One thread in the thread information table: its record, and the side record with what does not
 * fit into it.  tek_table.h: where they lie in the table's file, and how a reader copies them.
 */
#ifndef TEK_RECORD_ABI_H
#define TEK_RECORD_ABI_H

#include "tek_types.h"

/* struct tek_record.place: group in bits 0-2, region in bits 3-4, stack zone in bits 5-6. */
#define TEK_PLACE_GROUP_SHIFT 0
#define TEK_PLACE_GROUP_MASK 0x07u
#define TEK_PLACE_REGION_SHIFT 3
#define TEK_PLACE_REGION_MASK 0x18u
#define TEK_PLACE_ZONE_SHIFT 5
#define TEK_PLACE_ZONE_MASK 0x60u

/* Zones of a stack, by how much of it is used (tek-2020, IV-B). */
#define TEK_ZONE_NONE 0u /* not measured */
#define TEK_ZONE_LOW 1u  /* most of it is wasted */
#define TEK_ZONE_NORMAL 2u
#define TEK_ZONE_HIGH 3u /* near its end */

/* struct tek_record.flags */
#define TEK_FLAG_MARKED 0x01u    /* marked time-critical: follows a request of its group */
#define TEK_FLAG_NAMED 0x02u     /* its name was set for this very thread, not inherited */
#define TEK_FLAG_MAIN 0x04u      /* the process's first thread */
#define TEK_FLAG_ADOPTED 0x08u   /* not created through TEK; found later */
#define TEK_FLAG_OVERRAN 0x10u   /* the guard sent it back at least once */
#define TEK_FLAG_ASKED 0x40u     /* it was given the policy SCHED_TEK (TEK_WHY_POLICY) */
#define TEK_FLAG_UNWATCHED 0x20u /* its end will be noticed late: it may be gone */
#define TEK_FLAG_USER 0x80u      /* a user-level thread, which the kernel knows nothing of */

/*
 * User-level threads (libtek-uthread(7)) have records like any other, with TEK_FLAG_USER. Their tid
 * and creator_tid are numbers of the engine: from 1, the first thread's, and never reused in a
 * process, but for the lowest 32 bits.
 */

/* One thread: 40 bytes (tek-2020, IV-C). */
struct tek_record {
	tek_u32 seq;           /* even: stable; odd: being written */
	tek_u32 tid;           /* kernel thread id, or with TEK_FLAG_USER its number; 0: the slot is
	                          free */
	tek_u64 start_ns;      /* CLOCK_BOOTTIME of the process, read once the thread existed, when
	                          it was created or found.  With tid an identity: /proc's start
	                          time of the same thread is never later, that of a thread which
	                          got a reused tid always is; compare them in one time namespace
	                          (boot_offset_ns) */
	tek_u64 start_routine; /* address in the process of what it runs; 0: not known.  Of a
	                          std::thread: its function, else the vtable of its state; of
	                          other runtimes: lib/base/start_routine.h */
	tek_u32 stack_pages;   /* size of its stack, in pages; 0: not known */
	tek_u32 peak_bytes;    /* stack certainly used, in bytes; 0: not measured */
	tek_u16 bound_pages;   /* stack used at most, in pages; 0: not measured */
	tek_u16 role_bytes;    /* length of its role, without the NUL; 0: none */
	tek_u8 policy;         /* as TEK last saw it set: SCHED_*, or TEK_SCHED_POLICY while it
	                          is Fast; the kernel has the last word (/proc) */
	tek_s8 priority;       /* with it: nice value (fair, SCHED_TEK) or real-time priority */
	tek_u8 place;          /* group, region, zone: TEK_PLACE_* */
	tek_u8 flags;          /* TEK_FLAG_* */
};

/* struct tek_side.base_flags */
#define TEK_BASE_RESET_ON_FORK 0x01u /* the thread had the kernel's reset-on-fork flag */
#define TEK_BASE_SAVED 0x02u         /* base_* hold what is restored when the thread leaves */

/* struct tek_side.reasons: why a thread is Fast, or was at the last look. */
#define TEK_WHY_POLICY 0x01u /* it was given the policy SCHED_TEK */
#define TEK_WHY_ENTER 0x02u  /* it is between tek_critical_enter() and _leave() */
#define TEK_WHY_TIMED 0x04u  /* tek_critical_for() has not run out */
#define TEK_WHY_RULE 0x08u   /* a rule names it */
#define TEK_WHY_FOLLOW 0x10u /* it is marked, and a thread of its group asks */
#define TEK_WHY_LIFT 0x20u   /* it holds what a thread with another of these reasons waits for */

/*
 * struct tek_side.waits: what a user-level thread waits for.  The numbers stay; there may be more
 * some day, which a reader takes for TEK_WAITS_OTHER.
 */
#define TEK_WAITS_NO 0u
#define TEK_WAITS_OTHER 1u  /* for something that is not listed here */
#define TEK_WAITS_MUTEX 2u  /* to be given it; also at the end of a wait for a condition variable */
#define TEK_WAITS_COND 3u   /* for a signal of a condition variable */
#define TEK_WAITS_RWLOCK 4u /* for a read-write lock */
#define TEK_WAITS_BARRIER 5u   /* for the rest of its round */
#define TEK_WAITS_SEMAPHORE 6u /* to take one */
#define TEK_WAITS_ONCE 7u      /* until another thread has run a routine that runs once */
#define TEK_WAITS_JOIN 8u      /* for the end of a thread */
#define TEK_WAITS_FILE 9u      /* for a file or a socket, by whatever call: read, accept, poll */
#define TEK_WAITS_SLEEP 10u    /* for a time */
#define TEK_WAITS_SIGNAL 11u   /* for a signal: pause, sigwait */
#define TEK_WAITS_PAUSE 12u    /* a moment, to try again: no thread reports the end of this wait */

#define TEK_ROLE_BYTES 64 /* of a role, with its NUL */

/* struct tek_side.stack_flags, struct tek_kind.stack_flags */
#define TEK_STACK_TUNED 0x01u      /* TEK chose its size */
#define TEK_STACK_EXPLICIT 0x02u   /* its program chose its size */
#define TEK_STACK_OWN 0x04u        /* its program gave it the memory: pthread_attr_setstack(3) */
#define TEK_STACK_EXACT 0x08u      /* its peak is exact: painted */
#define TEK_STACK_UNCLEAN 0x10u    /* its bound may be an earlier thread's, or the kernel's */
#define TEK_STACK_GROWN 0x20u      /* it needed its reserve (--stack grow) */
#define TEK_STACK_OVERFLOWED 0x40u /* it ran into its guard */

/*
 * The fields beyond a record: 144 bytes, guarded by the seq of the record of the same slot, unless
 * noted otherwise.
 */
struct tek_side {
	tek_u8 name[16];       /* the thread's name, NUL-terminated; valid with TEK_FLAG_NAMED */
	tek_u64 fast_ns;       /* time spent in the Fast Region by finished stays, in ns */
	tek_u64 fast_since_ns; /* CLOCK_BOOTTIME when the present stay began; 0: not there now */
	tek_u32 stays;         /* how often it entered the Fast Region */
	tek_u32 overruns;      /* how often the guard sent it back */
	tek_u8 base_policy;    /* kernel policy to restore */
	tek_u8 base_priority;  /* real-time priority to restore */
	tek_u8 base_flags;     /* TEK_BASE_*; nice is not here: the kernel keeps it (docs) */
	tek_u8 rt_priority;    /* real-time priority in force while Fast; 0: none of ours */
	tek_u32 creator_tid;   /* thread that created it; 0: not known */
	tek_u64 call_site;     /* address in the process that its pthread_create() returned to; 0:
	                          not known */
	tek_u8 reasons;        /* TEK_WHY_* */
	tek_u8 rule;           /* number, from 1, of the rule of TEK_RULES behind TEK_WHY_RULE; 0:
	                          TEK_CRITICAL */
	tek_u8 own_policy;     /* as record.policy and record.priority if it were not Fast */
	tek_s8 own_priority;
	tek_u16 kind;             /* number, from 1, of its kind in the table; 0: none */
	tek_u8 stack_flags;       /* TEK_STACK_* */
	tek_u8 later_rt_priority; /* rt_priority from the end of its time on; 0: none */
	tek_u64 stack_end; /* address behind the top of its stack; 0: not known.  The stack is
	                          the stack_pages below, the C library's own data at the top
	                          included, the guard below them not */
	/* what it is for: UTF-8, NUL-terminated; valid if tek_record.role_bytes is not 0 */
	tek_u8 role[64];
	/* Of user-level threads, each written by a store of its own, whatever seq is: */
	tek_u16 worker;     /* number, from 1, of the worker that it ran on last; 0: on none yet */
	tek_u8 waits;       /* TEK_WAITS_*: for what; TEK_WAITS_NO: it runs, or is ready to */
	tek_u8 reserved2;   /* zero */
	tek_u32 lifted_for; /* thread that waits for what it holds, or for its end (TEK_WHY_LIFT);
	                       of several the most critical one; 0: none */
};

TEK_ABI_ASSERT(sizeof(struct tek_record) == 40);
TEK_ABI_AT(tek_record, seq, 0);
TEK_ABI_AT(tek_record, tid, 4);
TEK_ABI_AT(tek_record, start_ns, 8);
TEK_ABI_AT(tek_record, start_routine, 16);
TEK_ABI_AT(tek_record, stack_pages, 24);
TEK_ABI_AT(tek_record, peak_bytes, 28);
TEK_ABI_AT(tek_record, bound_pages, 32);
TEK_ABI_AT(tek_record, role_bytes, 34);
TEK_ABI_AT(tek_record, policy, 36);
TEK_ABI_AT(tek_record, priority, 37);
TEK_ABI_AT(tek_record, place, 38);
TEK_ABI_AT(tek_record, flags, 39);

TEK_ABI_ASSERT(sizeof(struct tek_side) == 144);
TEK_ABI_AT(tek_side, fast_ns, 16);
TEK_ABI_AT(tek_side, fast_since_ns, 24);
TEK_ABI_AT(tek_side, stays, 32);
TEK_ABI_AT(tek_side, overruns, 36);
TEK_ABI_AT(tek_side, base_policy, 40);
TEK_ABI_AT(tek_side, base_priority, 41);
TEK_ABI_AT(tek_side, base_flags, 42);
TEK_ABI_AT(tek_side, rt_priority, 43);
TEK_ABI_AT(tek_side, creator_tid, 44);
TEK_ABI_AT(tek_side, call_site, 48);
TEK_ABI_AT(tek_side, reasons, 56);
TEK_ABI_AT(tek_side, rule, 57);
TEK_ABI_AT(tek_side, own_policy, 58);
TEK_ABI_AT(tek_side, own_priority, 59);
TEK_ABI_AT(tek_side, kind, 60);
TEK_ABI_AT(tek_side, stack_flags, 62);
TEK_ABI_AT(tek_side, stack_end, 64);
TEK_ABI_AT(tek_side, role, 72);
TEK_ABI_AT(tek_side, worker, 136);
TEK_ABI_AT(tek_side, waits, 138);

#endif
