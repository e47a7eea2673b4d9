/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of the thread information table (tek_table.h) about threads that hold up Fast ones. */
#ifndef TEK_INVERSIONS_ABI_H
#define TEK_INVERSIONS_ABI_H

#include "tek_types.h"

/*
 * A place where Fast threads waited for threads that were not Fast: 120 bytes. Waits are of one
 * place if the same call waited for the same object, or joined a thread. The table has the places
 * with the longest waits. All addresses are those of the process.
 */
struct tek_inversion {
	tek_u32 seq;       /* even: stable; odd: being written */
	tek_u32 kind;      /* TEK_WAITS_MUTEX, _RWLOCK, _COND or _JOIN; TEK_WAITS_NO: it is free */
	tek_u64 object;    /* the lock, for _COND the mutex; 0 for _JOIN */
	tek_u64 call;      /* where the call that waited returned to */
	tek_u64 waits;     /* how often a Fast thread waited here */
	tek_u64 waited_ns; /* and for how long in all */
	/* The longest of these waits: */
	tek_u64 wait_ns;
	tek_u64 lifted_ns;     /* time that the holder was lifted meanwhile */
	tek_u64 lifted_cpu_ns; /* CPU time that it used in that time */
	tek_u64 cost_ns;       /* estimated wait without the lift; 0: not known */
	tek_u64 release;       /* where the call that unlocked returned to; for _JOIN the function
	                          that the holder ran; 0: not known */
	tek_u32 waiter_tid;
	tek_u32 holder_tid;     /* the thread that held the object, or was joined */
	tek_u8 waiter_name[16]; /* NUL-terminated */
	tek_u8 holder_name[16];
};

#define TEK_INVERSIONS_OFFSET 1024u
#define TEK_MAX_INVERSIONS 16u

/*
 * A Fast thread that waits at present for one that is not Fast, or a thread of any kind that waits
 * in a deadlock for which a Fast thread waits: 40 bytes.
 */
struct tek_held_up {
	tek_u32 seq;    /* even: stable; odd: being written */
	tek_u32 tid;    /* the thread that waits; 0: the slot is free */
	tek_u32 holder; /* the thread that held the object first, or is joined; in deadlocks: now */
	tek_u32 kind;   /* this and the next two as in struct tek_inversion; beside it maybe
	                   TEK_HELD_UP_DEADLOCK */
	tek_u64 object;
	tek_u64 call;
	tek_u64 since_ns; /* CLOCK_BOOTTIME of the process */
};

/* Beside the kind: the waits that begin with this one, each by the holder, form a circle. */
#define TEK_HELD_UP_DEADLOCK 0x100u

#define TEK_HELD_UP_OFFSET 3072u
#define TEK_MAX_HELD_UP 16u

TEK_ABI_ASSERT(sizeof(struct tek_inversion) == 120);
TEK_ABI_AT(tek_inversion, object, 8);
TEK_ABI_AT(tek_inversion, call, 16);
TEK_ABI_AT(tek_inversion, waits, 24);
TEK_ABI_AT(tek_inversion, waited_ns, 32);
TEK_ABI_AT(tek_inversion, wait_ns, 40);
TEK_ABI_AT(tek_inversion, lifted_ns, 48);
TEK_ABI_AT(tek_inversion, lifted_cpu_ns, 56);
TEK_ABI_AT(tek_inversion, cost_ns, 64);
TEK_ABI_AT(tek_inversion, release, 72);
TEK_ABI_AT(tek_inversion, waiter_tid, 80);
TEK_ABI_AT(tek_inversion, holder_tid, 84);
TEK_ABI_AT(tek_inversion, waiter_name, 88);
TEK_ABI_AT(tek_inversion, holder_name, 104);

TEK_ABI_ASSERT(sizeof(struct tek_held_up) == 40);
TEK_ABI_AT(tek_held_up, tid, 4);
TEK_ABI_AT(tek_held_up, holder, 8);
TEK_ABI_AT(tek_held_up, kind, 12);
TEK_ABI_AT(tek_held_up, object, 16);
TEK_ABI_AT(tek_held_up, call, 24);
TEK_ABI_AT(tek_held_up, since_ns, 32);

#endif
