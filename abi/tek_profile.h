/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the time of a program's threads goes: what libtek-profile.so (lib/profile) counts in the
 * program, and `tek profile` reads while it runs and when it has ended.
 *
 * The file, one for each program that a process runs
 * --------------------------------------------------
 *   offset 0                     struct tek_profile_header, padded
 *   TEK_PROFILE_THERE_OFFSET     a bit for each thread's part that there is memory for; the
 *   process's own
 *   TEK_PROFILE_MODULES_OFFSET   struct tek_module, header.modules of them, padded
 *   TEK_PROFILE_THREADS_OFFSET   TEK_PROFILE_THREAD_BYTES for each thread that the process had:
 *                                struct tek_profile_thread, at TEK_PROFILE_OBJECTS_OFFSET of it
 *                                TEK_PROFILE_OBJECTS times struct tek_profile_object
 *   TEK_PROFILE_BLOCKS_OFFSET    blocks of TEK_PROFILE_BLOCK_BYTES: struct tek_profile_block, then
 *                                struct tek_profile_wait
 *
 * The file is sparse, and mapped: what a thread counts is in it at once, so a program that is
 * killed loses nothing. Only its own thread writes to what is a thread's (but `serial_ticks`),
 * without a lock, so a concurrent reader may find numbers that do not quite fit each other.
 *
 * Times are in ticks of the clock in header.clock.  Thread numbers count from 1; 0 is none.
 *
 * This header is for C, and crates/tek-abi repeats it.  Change a struct and TEK_PROFILE_VERSION
 * changes too.
 */
#ifndef TEK_PROFILE_ABI_H
#define TEK_PROFILE_ABI_H

#include "tek_abi.h"

#define TEK_PROFILE_VERSION 3u
#define TEK_PROFILE_MAGIC 0x464f52504b455400ull /* "\0TEKPROF", little-endian */
#define TEK_PROFILE_BLOCK_MAGIC 0x50424b54u     /* "TKBP" */

#define TEK_PROFILE_THERE_OFFSET 4096u
#define TEK_PROFILE_MODULES_OFFSET 65536u
#define TEK_PROFILE_MAX_MODULES 128u
#define TEK_PROFILE_THREADS_OFFSET 131072u
#define TEK_PROFILE_MAX_THREADS 4096u
#define TEK_PROFILE_THREAD_BYTES 24576u
#define TEK_PROFILE_OBJECTS_OFFSET 512u
#define TEK_PROFILE_OBJECTS 256u
#define TEK_PROFILE_BLOCKS_OFFSET 100794368u
#define TEK_PROFILE_BLOCK_BYTES 16384u /* small: a thread that waits once takes one */
#define TEK_PROFILE_MAX_BLOCKS 4096u

/* struct tek_profile_header.clock */
#define TEK_PROFILE_CLOCK_MONOTONIC 1u /* CLOCK_MONOTONIC: a tick is a ns */
#define TEK_PROFILE_CLOCK_COUNTER 2u   /* the processor's: TSC, CNTVCT */

/* Calls that take so long may have been interrupted: no CPU is lost for less, and given back. */
#define TEK_PROFILE_LONG_NS 100000u

/* The parts of time other than work. Inside one part the other ones do not count. */
#define TEK_PROFILE_SYNC 1u  /* waiting for other threads: locks, conditions, barriers, ends */
#define TEK_PROFILE_FILE 2u  /* calls for files, those of stdio too */
#define TEK_PROFILE_ALLOC 3u /* malloc() and its family */
#define TEK_PROFILE_IDLE 4u  /* waiting for a time, for events, for other processes */
#define TEK_PROFILE_PARTS 5u

/* struct tek_profile_object.kind */
#define TEK_PROFILE_MUTEX 1u
#define TEK_PROFILE_SPIN 2u
#define TEK_PROFILE_READ 3u /* a read-write lock, to read */
#define TEK_PROFILE_WRITE 4u
#define TEK_PROFILE_COND 5u
#define TEK_PROFILE_BARRIER 6u
#define TEK_PROFILE_SEMAPHORE 7u
#define TEK_PROFILE_JOIN 8u
#define TEK_PROFILE_SLEEP 9u /* struct tek_profile_wait.kind only: in TEK_PROFILE_IDLE */

struct tek_profile_header {
	tek_u64 magic;   /* TEK_PROFILE_MAGIC, written last */
	tek_u32 version; /* TEK_PROFILE_VERSION */
	tek_u32 clock;   /* TEK_PROFILE_CLOCK_* */
	tek_u32 pid;
	tek_u32 parent;      /* its pid */
	tek_u64 start_ticks; /* when counting began, */
	tek_u64 start_ns;    /* and at the same moment CLOCK_MONOTONIC */
	tek_u64 last_ticks;  /* the same pair, the last that was taken */
	tek_u64 last_ns;
	tek_u64 end_ticks; /* 0: the process was killed, or still runs */
	tek_u64 active; /* bits 0-15: threads that do not wait; above: the sum of their numbers */
	tek_u64 serial_since;   /* since when there is only one; 0: several, or none */
	tek_u32 threads;        /* that were given numbers; may be more than there is room for */
	tek_u32 blocks;         /* the same */
	tek_u32 modules;        /* struct tek_module that are there */
	tek_u32 clock_cost;     /* ticks between two looks at the clock */
	tek_u64 start_cost;     /* ns that it took until counting began; in ticks: */
	tek_u64 lock_cost;      /* what it adds to a lock and an unlock, in 1/1024 of ticks, */
	tek_u64 counted_cost;   /* to a call that is only counted, */
	tek_u64 timed_cost;     /* to one that is timed, */
	tek_u64 scheduler_cost; /* and to one around which the scheduler is asked */
	tek_u8 program[64];     /* path of the program, its end if it is too long */
	tek_u32 lost_threads; /* that are not counted, because there was no room for them; atomic */
	tek_u32 replaced;     /* 1: by another program, exec(3), unless that fails */
};

struct tek_profile_thread {
	tek_u32 tid;
	tek_u32 creator;       /* number of the thread that created it; 0: not known */
	tek_u64 begin_ticks;   /* 0: there is no thread here yet */
	tek_u64 end_ticks;     /* 0: it was there when the process ended, or still is */
	tek_u64 created_ticks; /* when its creator asked for it */
	tek_u64 routine;     /* address of its start routine; 0: the first thread's, or not known */
	tek_u64 argument;    /* of that, until it runs */
	tek_u8 name[16];     /* NUL-terminated; as it was last seen */
	tek_u32 inside;      /* TEK_PROFILE_*: what it is in; 0: work */
	tek_u32 is_waiting;  /* whether it is not counted in header.active */
	tek_u64 since_ticks; /* since when it is; 0: the call is only counted */
	tek_u64 ticks[5];    /* spent in each of them */
	tek_u64 calls[5];    /* that began */
	tek_u64 timed[5];    /* calls that were timed; of 0, how often the scheduler was asked */
	tek_u64 serial_ticks;   /* while no other thread did anything; atomic */
	tek_u64 serial_part[5]; /* of that, what was spent in each of them */
	tek_u64 long_ticks[5];  /* of `ticks`, those of calls of TEK_PROFILE_LONG_NS and more */
	tek_u64 locks;          /* taken */
	tek_u64 run_ns; /* on a CPU, and waiting for one, as /proc/self/task/TID/schedstat has it */
	tek_u64 delay_ns;
	tek_u64 first_run_ns; /* the same when counting began */
	tek_u64 first_delay_ns;
	tek_u64 scheduler_ticks;  /* when that was read last */
	tek_u64 sampled[5];       /* of the time in each: around how much of it that was read, */
	tek_u64 sampled_delay[5]; /* and how much of that was delay, in ns */
	tek_u64 lost_waits;       /* struct tek_profile_wait that there was no room for */
	tek_u64 lost_objects;     /* acquisitions that are in no struct tek_profile_object */
	tek_u64 sampled_file_run; /* of files it is what was on a CPU, in ns */
	tek_u64 active_ticks;     /* since when it does not wait, the last time */
	tek_u64 function;  /* what it runs: of a std::thread its function, else the routine */
	tek_u64 handle;    /* its pthread_t */
	tek_u64 waits_for; /* while it waits in TEK_PROFILE_SYNC: the object, */
	tek_u64 waits_at;  /* where the call returns to, */
	tek_u32 wait_kind; /* and TEK_PROFILE_MUTEX, ...; 0: it never did */
	tek_u32 reserved;
};

/* A lock, barrier, ... as one thread used it at one place of the program. */
struct tek_profile_object {
	tek_u64 object; /* its address; 0: several, for which there was no room */
	tek_u64 site;   /* where the call returns to */
	tek_u32 kind;   /* TEK_PROFILE_MUTEX, ...; 0: nothing is here */
	tek_u32 reserved;
	tek_u64 count;      /* acquisitions, waits, arrivals */
	tek_u64 contended;  /* of these, how often it could not be had at once */
	tek_u64 wait_ticks; /* waited for it */
	tek_u64 wait_most;
	tek_u64 holds; /* acquisitions that stand for those of which the hold time was measured */
	tek_u64 hold_ticks; /* the sum of these hold times */
	tek_u64 hold_most;
};

struct tek_profile_block {
	tek_u32 magic;    /* TEK_PROFILE_BLOCK_MAGIC, written last */
	tek_u32 thread;   /* the thread of these waits */
	tek_u32 sequence; /* of the thread's blocks, from 0 */
	tek_u32 waits;    /* that are there; atomic */
	tek_u64 reserved[6];
};

/* One time that a thread waited for another one. */
struct tek_profile_wait {
	tek_u64 begin_ticks;
	tek_u64 end_ticks;
	tek_u64 object;
	tek_u64 site;
	tek_u64 released_ticks; /* when `waker` let it go on, as far as that is known */
	tek_u64 file_ticks;     /* what the thread had spent in files until then, in all */
	tek_u64 alloc_ticks;    /* and in the allocator */
	tek_u32 waker;          /* number of a thread; 0: not known */
	tek_u32 kind;           /* TEK_PROFILE_MUTEX, ... */
};

TEK_ABI_ASSERT(sizeof(struct tek_profile_header) == 208);
TEK_ABI_AT(tek_profile_header, version, 8);
TEK_ABI_AT(tek_profile_header, pid, 16);
TEK_ABI_AT(tek_profile_header, start_ticks, 24);
TEK_ABI_AT(tek_profile_header, active, 64);
TEK_ABI_AT(tek_profile_header, threads, 80);
TEK_ABI_AT(tek_profile_header, start_cost, 96);
TEK_ABI_AT(tek_profile_header, program, 136);
TEK_ABI_AT(tek_profile_header, lost_threads, 200);
TEK_ABI_AT(tek_profile_header, replaced, 204);

TEK_ABI_ASSERT(sizeof(struct tek_profile_thread) == 488);
TEK_ABI_AT(tek_profile_thread, begin_ticks, 8);
TEK_ABI_AT(tek_profile_thread, name, 48);
TEK_ABI_AT(tek_profile_thread, inside, 64);
TEK_ABI_AT(tek_profile_thread, ticks, 80);
TEK_ABI_AT(tek_profile_thread, serial_ticks, 200);
TEK_ABI_AT(tek_profile_thread, locks, 288);
TEK_ABI_AT(tek_profile_thread, sampled, 336);
TEK_ABI_AT(tek_profile_thread, function, 448);
TEK_ABI_AT(tek_profile_thread, wait_kind, 480);

TEK_ABI_ASSERT(sizeof(struct tek_profile_object) == 80);
TEK_ABI_AT(tek_profile_object, kind, 16);
TEK_ABI_AT(tek_profile_object, count, 24);
TEK_ABI_AT(tek_profile_object, hold_most, 72);

TEK_ABI_ASSERT(sizeof(struct tek_profile_block) == 64);
TEK_ABI_AT(tek_profile_block, waits, 12);

TEK_ABI_ASSERT(sizeof(struct tek_profile_wait) == 64);
TEK_ABI_AT(tek_profile_wait, released_ticks, 32);
TEK_ABI_AT(tek_profile_wait, waker, 56);

#endif
