/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface of TEK's C and Rust halves: the thread information table in shared memory, the
 * event file of a run, and the messages of the daemon's socket.
 *
 * This header includes nothing and holds plain structs only, so that C, BPF and
 * Rust (crates/tek-abi, which repeats it and asserts the same sizes and
 * offsets) can all read it.  Change a struct and TEK_ABI_VERSION changes too.
 *
 * The table file
 * --------------
 *   offset 0                    struct tek_table_header, padded
 *   TEK_INVERSIONS_OFFSET       struct tek_inversion, TEK_MAX_INVERSIONS of them
 *   TEK_HELD_UP_OFFSET          struct tek_held_up, TEK_MAX_HELD_UP of them, padded
 *   TEK_MODULES_OFFSET          struct tek_module, header.modules of them, padded
 *   TEK_KINDS_OFFSET            struct tek_kind, header.kinds of them, padded
 *   TEK_WORKERS_OFFSET          struct tek_worker_place, header.workers of them, padded
 *   TEK_TABLE_HEADER_BYTES      chunk 0, chunk 1, ... of TEK_TABLE_CHUNK_BYTES
 *
 * A chunk is TEK_CHUNK_SLOTS records, at TEK_CHUNK_SIDE_OFFSET as many side
 * records, and padding up to a multiple of 64 KiB, the largest page of the
 * processors that Linux runs on.  The file is sparse: memory is used for touched
 * pages only.  It never shrinks, so an offset that was once valid stays valid.
 *
 * A process that ran with the Stack Tuner leaves its table behind as PID-NUMBER.ended in
 * the run directory, if it has kinds: `tek run` learns from it and removes it.
 *
 * Life of a slot: free (tid 0) -> filled when the thread begins or is found ->
 * changed, always under the process's own lock -> free again.
 *
 * Reading without a lock: load seq (acquire); odd means a write is under way;
 * copy the record and its side record; fence (acquire); load seq again; use the
 * copy only if both loads gave the same even number.  A writer may be stopped
 * in mid-write, so try a bounded number of times.
 *
 * By system calls (pread), for a reader that does not map a file which its owner might shrink: read
 * the records, then records and side records, then the records again, with an acquire fence between
 * the calls. The middle copy of a record is good if its seq is the same even number in the first
 * and the last copy. A kind, an inversion and a thread that is held up have a seq of their own, to
 * be read in the same way. A module is written once, before header.modules counts it.
 */
#ifndef TEK_ABI_H
#define TEK_ABI_H

typedef unsigned char tek_u8;
typedef signed char tek_s8;
typedef unsigned short tek_u16;
typedef unsigned int tek_u32;
typedef signed int tek_s32;
typedef unsigned long long tek_u64 __attribute__((aligned(8))); /* i386 aligns to 4 */
typedef signed long long tek_s64;

#define TEK_ABI_VERSION 6u

/*
 * The scheduling policy number of SCHED_TEK.  No kernel accepts it (Linux knows
 * 0 to 7), so a request that does not reach TEK fails with EINVAL instead of
 * meaning something else.  It fits in a record's 8-bit policy field.
 */
#define TEK_SCHED_POLICY 84

/* Groups of threads (cpu-mediator-2019, 3.1). */
#define TEK_GROUP_NORMAL 0u     /* on the screen; where every thread starts */
#define TEK_GROUP_URGENT 1u     /* on the screen and interacting with the user */
#define TEK_GROUP_SERVICE 2u    /* daemons */
#define TEK_GROUP_BACKGROUND 3u /* at work, invisible to the user */

/* Regions (tek-2020, IV-A). */
#define TEK_REGION_NONE 0u /* normal mode as far as this process knows */
#define TEK_REGION_FAST 1u /* runs before everything fair on the device */

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
	tek_u16 kind;       /* number, from 1, of its kind in the table; 0: none */
	tek_u8 stack_flags; /* TEK_STACK_* */
	tek_u8 reserved;    /* zero */
	tek_u64 stack_end;  /* address behind the top of its stack; 0: not known.  The stack is
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

/* A file that start routines lie in: 512 bytes. */
struct tek_module {
	tek_u64 start;       /* first address that it takes in the process */
	tek_u64 end;         /* the address behind the last */
	tek_u64 bias;        /* address in the process minus address in its file's ELF headers */
	tek_u8 build_id[20]; /* its NT_GNU_BUILD_ID note, the first bytes */
	tek_u32 build_id_bytes;
	tek_u8 path[464]; /* NUL-terminated; empty where it does not fit */
};

#define TEK_MODULES_OFFSET 4096u
#define TEK_MAX_MODULES 64u

/* struct tek_kind.label_is */
#define TEK_LABEL_NONE 0u
#define TEK_LABEL_NAME 1u
#define TEK_LABEL_ROLE 2u

/*
 * A kind of thread, and what the stacks of its threads were like: 128 bytes.  Threads are of
 * one kind if they run the same function, were created at the same place, and bear the same
 * label: their role, else the name that was set for them, each run of digits in it as one '#'.
 */
struct tek_kind {
	tek_u32 seq;            /* even: stable; odd: being written */
	tek_u32 threads;        /* threads of it so far: those that were measured, and for each
	                           the threads of a settled kind since the one before */
	tek_u64 function;       /* as struct tek_record.start_routine */
	tek_u64 call_site;      /* as in struct tek_side */
	tek_u64 stack_bytes;    /* the largest stack that one of them had */
	tek_u64 overflow_bytes; /* the largest stack that one of them ran out of; 0: none */
	tek_u32 peak_bytes;     /* most stack that one of them certainly used */
	tek_u32 bound_bytes;    /* most stack that one of them can have used; 0: not known */
	tek_u32 overflows;      /* how often one ran into its guard */
	tek_u8 stack_flags;     /* TEK_STACK_* of any of them */
	tek_u8 label_is;        /* TEK_LABEL_* */
	tek_u8 reserved[10];    /* zero */
	tek_u8 label[64];       /* NUL-terminated */
};

#define TEK_KINDS_OFFSET 36864u /* 4096 + 64 x 512 */
#define TEK_MAX_KINDS 512u

/* A worker of the engine of user-level threads, in their order: 8 bytes. */
struct tek_worker_place {
	tek_u32 tid; /* kernel thread that carries it, now or until a moment ago; 0: none yet */
	tek_u32 reserved; /* zero */
};

#define TEK_WORKERS_OFFSET 102400u /* 36864 + 512 x 128 */
#define TEK_MAX_WORKERS 256u

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

/* A Fast thread that waits at present for one that is not Fast: 40 bytes. */
struct tek_held_up {
	tek_u32 seq;    /* even: stable; odd: being written */
	tek_u32 tid;    /* the thread that waits; 0: the slot is free */
	tek_u32 holder; /* the thread that held the object first, or is joined */
	tek_u32 kind;   /* this and the next two as in struct tek_inversion */
	tek_u64 object;
	tek_u64 call;
	tek_u64 since_ns; /* CLOCK_BOOTTIME of the process */
};

#define TEK_HELD_UP_OFFSET 3072u
#define TEK_MAX_HELD_UP 16u

#define TEK_TABLE_MAGIC 0x454c4241544b4554ull /* "TEKTABLE", little-endian */
#define TEK_CHUNK_SLOTS 512u
#define TEK_MAX_CHUNKS 64u
#define TEK_MAX_SLOTS (TEK_CHUNK_SLOTS * TEK_MAX_CHUNKS) /* 32,768 */
#define TEK_TABLE_HEADER_BYTES 131072u
#define TEK_TABLE_CHUNK_BYTES 131072u
#define TEK_CHUNK_SIDE_OFFSET 20480u /* 512 x 40 */

/*
 * The first page of a table file.  start_ns is field 22 of /proc/PID/stat as in the initial time
 * namespace, up to a clock tick too early; 0: not known.
 */
struct tek_table_header {
	tek_u64 magic;          /* TEK_TABLE_MAGIC, written last */
	tek_u32 version;        /* TEK_ABI_VERSION */
	tek_u32 pid;            /* process that writes it */
	tek_u64 start_ns;       /* CLOCK_BOOTTIME when that began */
	tek_u32 record_bytes;   /* sizeof(struct tek_record) */
	tek_u32 side_bytes;     /* sizeof(struct tek_side) */
	tek_u32 page_bytes;     /* size of the pages that the records count in */
	tek_u32 chunks;         /* chunks that the file has room for: TEK_MAX_CHUNKS */
	tek_u32 slots;          /* slots ever used: a reader need not look further (only grows) */
	tek_u32 threads;        /* slots in use now; with user-level threads about so many */
	tek_u32 fast;           /* members of the Fast Region now: above 0 is responsiveness mode */
	tek_u32 lost;           /* threads that found no slot */
	tek_u8 program[64];     /* the program's short name, NUL-terminated */
	tek_u64 pid_namespace;  /* inode number of /proc/PID/ns/pid; 0: not known */
	tek_u32 modules;        /* struct tek_module that are there (only grows) */
	tek_u32 kinds;          /* struct tek_kind that are there (only grows) */
	tek_u32 program_module; /* number, from 1, of the module that is the program itself; 0: not
	                           listed */
	tek_u8 stack_mode;      /* TEK_STACK_MODE_* */
	tek_u8 low_percent;     /* a stack of which less is used is in the Low Zone, */
	tek_u8 high_percent;    /* and one of which more is used in the High Zone */
	tek_u8 reserved;        /* zero */
	tek_u32 workers; /* struct tek_worker_place that are there; 0: no user-level threads */
	/*
	 * Where the first stack of the process begins, as in /proc/PID/stat, field 28, lowest bits
	 * left out. A reader that may see that field and finds another value sees another program:
	 * the process has executed it since. 0: not known
	 */
	tek_u32 image;
	/* How far CLOCK_BOOTTIME of the process, in which the other times are, is ahead of the
	   initial time namespace's */
	tek_s64 boot_offset_ns;
	/* Of all threads so far; a process of 32 bits writes each in two halves: */
	tek_u64 lifts;      /* how often one was lifted (TEK_WHY_LIFT) */
	tek_u64 lifted_ns;  /* for how long, lifts that have ended */
	tek_u64 inversions; /* how often a Fast thread waited for one that was not, or was lifted */
	tek_u64 inverted_ns; /* for how long, waits that have ended */
};

#define TEK_IMAGE_SHIFT 4u

/* struct tek_table_header.stack_mode */
#define TEK_STACK_MODE_OFF 0u
#define TEK_STACK_MODE_REPORT 1u /* stacks are measured */
#define TEK_STACK_MODE_AUTO 2u   /* and fitted */
#define TEK_STACK_MODE_TIGHT 3u  /* to the page */

/*
 * The event file of a run: struct tek_event after struct tek_event, each appended with one write.
 * $TEK_EVENTS names it; without that variable a process writes its warnings to its standard error
 * instead.
 */
#define TEK_EVENT_MAGIC 0x564b4554u /* "TEKV", little-endian */

#define TEK_EVENT_REFUSED \
	1u /* the Fast Region was refused; error says why, and text if tekd was asked */
#define TEK_EVENT_OVERRAN \
	2u                       /* a thread used up its budget: value[0] ns in value[1] ns;
                                    it cannot come back for value[2] ns.  If tekd took it back text
                                    says what it used, and value[1] and value[2] are 0 */
#define TEK_EVENT_NOT_COVERED 3u /* TEK cannot ride in program; text says why */
#define TEK_EVENT_SUMMARY \
	4u                      /* a thread that was Fast has ended: value[0] ns in the
                                    region, value[1] stays, value[2] context switches while
                                    alive, value[3] CPU time in ns, error how often the guard
                                    sent it back */
#define TEK_EVENT_BAD_OPTION 5u /* an environment variable was not understood; text says which */
#define TEK_EVENT_STACK_HIGH \
	6u /* a thread's stack is nearly used up: value[0] bytes certainly used, value[1] at most,
	      of value[2]; text is its role.  Once for each kind */
#define TEK_EVENT_OVERFLOW \
	7u /* a thread ran out of its stack of value[0] bytes, at the address value[1]; error is 1
	      if TEK chose that size; text is its role.  FRAMEs follow */
#define TEK_EVENT_FRAME \
	8u /* a frame of the same thread's backtrace: value[0] its number, from 1 for the
	      innermost, 0 for the function that the thread runs; value[1] the address in the ELF
	      headers of the file that text names, value[2] the same in the process, value[3] how
	      many frames behind it were left out, because they repeat those before it or are
	      neither innermost nor outermost */
#define TEK_EVENT_NOT_PLACED \
	9u /* tekd did not put a thread into the group value[0]; error and text say why.  Once a
	      process */
#define TEK_EVENT_LOCKS \
	10u /* a process with locks of kind auto ends: they went value[0] times from spinning to
	       sleeping and value[1] times back.  LOCKs follow */
#define TEK_EVENT_LOCK \
	11u /* one of these locks: value[0] and value[1] as in LOCKS; value[2] its address in the
	       ELF headers of the file that text names, value[3] the same in the process.
	       Without text it lies in no file */
#define TEK_EVENT_INVERSIONS \
	12u /* a process ends in which Fast threads waited for others value[0] times, for value[1]
	       ns; threads were lifted value[2] times, for value[3] ns.  INVERSIONs follow */
#define TEK_EVENT_INVERSION \
	13u /* one of its struct tek_inversion: tid and thread are the waiter's; error is kind,
	       value[0] waits, value[1] waited_ns, value[2] wait_ns, value[3] cost_ns.  A HOLDER
	       and INVERSION_PLACEs follow */
#define TEK_EVENT_HOLDER \
	14u /* of the INVERSION before it: tid and thread are the holder's; value[0] lifted_ns,
	       value[1] lifted_cpu_ns */
#define TEK_EVENT_INVERSION_PLACE \
	15u /* likewise; error says which: TEK_AT_*; value[0] is the address in the ELF headers
	       of the file that text names, value[1] in the process.  Without text it lies in no
	       file */

/* struct tek_event.error of TEK_EVENT_INVERSION_PLACE */
#define TEK_AT_CALL 0
#define TEK_AT_RELEASE 1
#define TEK_AT_OBJECT 2

struct tek_event {
	tek_u32 magic; /* TEK_EVENT_MAGIC */
	tek_u16 bytes; /* sizeof(struct tek_event) */
	tek_u16 kind;  /* TEK_EVENT_* */
	tek_u32 pid;
	tek_u32 tid;
	tek_u64 time_ns;  /* CLOCK_REALTIME */
	tek_s32 error;    /* errno value; 0: none */
	tek_s32 priority; /* SCHED_TEK priority (nice) */
	tek_u64 value[4];
	tek_u8 thread[16];  /* thread name, NUL-terminated */
	tek_u8 program[64]; /* program name or path, NUL-terminated, shortened at the front */
	tek_u8 text[112];   /* one line, NUL-terminated */
};

/*
 * The daemon's socket: SOCK_SEQPACKET, a struct to a packet. $TEK_SOCKET names it, otherwise it is
 * TEK_SOCKET_PATH. Each request gets one reply, in order, with its number; NOTICEs come unasked,
 * between them. The kernel reports the sender of each packet (SCM_CREDENTIALS): the client is the
 * process that connected, and no other one that got hold of the socket. Its grants end when it
 * ends, executes another program, or closes its last connection. Fields that a kind does not name
 * are zero.
 */
#define TEK_SOCKET_PATH "/run/tek/tekd"
#define TEK_SOCKET_VERSION 1u
#define TEK_REQUEST_MAGIC 0x514b4554u /* "TEKQ", little-endian */
#define TEK_REPLY_MAGIC 0x524b4554u   /* "TEKR" */

/* struct tek_request.kind. Threads and processes are named by their ids in tekd's pid namespace. */
#define TEK_ASK_HELLO 1u /* first; reply: value[0] is TEK_GRANT_*, value[1] the budget's ns */
#define TEK_ASK_ENTER \
	2u /* the thread `tid` of this process into the Fast Region with `priority`, or, if it is
	      there, to that priority; until `until_ns` if that is not 0 */
#define TEK_ASK_LEAVE 3u /* and out of it: 0 also if it was not there */
#define TEK_ASK_GROUP \
	4u /* the thread `tid`, 0: this whole process, into the group `group`, until the process
	      ends or tekd stops; with TEK_ASK_PROCESS all of another process, as for CRITICAL.
	      Needs no HELLO before it */
#define TEK_ASK_STATUS \
	5u /* what tekd is at; the reply brings a file (SCM_RIGHTS) with JSON in it */
#define TEK_ASK_EXPLAIN 6u /* the same about the thread `tid` */
#define TEK_ASK_CRITICAL \
	7u /* as ENTER, for a foreign thread or, with TEK_ASK_PROCESS, all threads of the
	      process `tid` that began at `start_ticks`, if that is not 0 (/proc/PID/stat, field
	      22, give or take one); only for clients that tekd allows */
#define TEK_ASK_NORMAL 8u /* and back again */

/* struct tek_request.flags */
#define TEK_ASK_PROCESS 0x01u
#define TEK_ASK_LIFT \
	0x02u /* of ENTER: only because a Fast thread waits for this one. It gives its place to a
		 thread of the process that is Fast for another reason */

struct tek_request {
	tek_u32 magic;   /* TEK_REQUEST_MAGIC */
	tek_u16 version; /* TEK_SOCKET_VERSION */
	tek_u16 kind;    /* TEK_ASK_* */
	tek_u32 number;  /* the sender's choice */
	tek_u32 tid;
	tek_u64 start_ticks; /* both as in the initial time namespace: */
	tek_u64 until_ns;    /* CLOCK_MONOTONIC */
	tek_s32 priority;    /* of SCHED_TEK: -20 to 19 */
	tek_u32 flags;       /* TEK_ASK_* */
	tek_u32 group;       /* TEK_GROUP_* */
	tek_u32 budget_us;   /* of ENTER: CPU time that the thread wants to be held to, in each */
	tek_u32 window_us;   /* window of that length; 0: to what the grant says only */
	tek_u32 reserved[3]; /* zero */
};

/* struct tek_reply.kind: that of the request, or */
#define TEK_TELL_LEFT \
	101u /* the thread `tid` is Fast no more: error is EDQUOT (its budget; value[0] ns used of
	        value[1] ns), ETIME (`until_ns` has come), EPERM (it may not be so any more), EAGAIN
	        (another user, or for a lifted thread another thread, needs its place) */
#define TEK_TELL_REFUSED 102u /* what came was no request; the connection is closed */

/* Permissions of a process, in the reply to HELLO. */
#define TEK_GRANT_SWITCH 0x01u /* tekd makes each switch */
#define TEK_GRANT_LIMIT 0x02u  /* its RLIMIT_RTPRIO was raised: it can do so itself */

struct tek_reply {
	tek_u32 magic;   /* TEK_REPLY_MAGIC */
	tek_u16 version; /* TEK_SOCKET_VERSION */
	tek_u16 kind;
	tek_u32 number;
	tek_u32 tid;
	tek_s32 error;       /* errno value; 0: done */
	tek_u32 rt_priority; /* in force, after ENTER and CRITICAL; 0: none of tekd's */
	tek_u64 value[2];
	tek_u8 text[88]; /* why, one line, NUL-terminated; with error only */
};

#ifndef __cplusplus
#define TEK_ABI_ASSERT(cond) _Static_assert(cond, #cond)
#else
#define TEK_ABI_ASSERT(cond) static_assert(cond, #cond)
#endif
#define TEK_ABI_AT(type, field, offset) \
	TEK_ABI_ASSERT(__builtin_offsetof(struct type, field) == (offset))

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

TEK_ABI_ASSERT(sizeof(struct tek_kind) == 128);
TEK_ABI_AT(tek_kind, function, 8);
TEK_ABI_AT(tek_kind, call_site, 16);
TEK_ABI_AT(tek_kind, stack_bytes, 24);
TEK_ABI_AT(tek_kind, overflow_bytes, 32);
TEK_ABI_AT(tek_kind, peak_bytes, 40);
TEK_ABI_AT(tek_kind, bound_bytes, 44);
TEK_ABI_AT(tek_kind, overflows, 48);
TEK_ABI_AT(tek_kind, stack_flags, 52);
TEK_ABI_AT(tek_kind, label_is, 53);
TEK_ABI_AT(tek_kind, label, 64);

TEK_ABI_ASSERT(sizeof(struct tek_module) == 512);
TEK_ABI_AT(tek_module, end, 8);
TEK_ABI_AT(tek_module, bias, 16);
TEK_ABI_AT(tek_module, build_id, 24);
TEK_ABI_AT(tek_module, build_id_bytes, 44);
TEK_ABI_AT(tek_module, path, 48);

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

TEK_ABI_ASSERT(sizeof(struct tek_worker_place) == 8);
TEK_ABI_ASSERT(sizeof(struct tek_table_header) == 192);
TEK_ABI_AT(tek_table_header, version, 8);
TEK_ABI_AT(tek_table_header, pid, 12);
TEK_ABI_AT(tek_table_header, start_ns, 16);
TEK_ABI_AT(tek_table_header, record_bytes, 24);
TEK_ABI_AT(tek_table_header, side_bytes, 28);
TEK_ABI_AT(tek_table_header, page_bytes, 32);
TEK_ABI_AT(tek_table_header, chunks, 36);
TEK_ABI_AT(tek_table_header, slots, 40);
TEK_ABI_AT(tek_table_header, threads, 44);
TEK_ABI_AT(tek_table_header, fast, 48);
TEK_ABI_AT(tek_table_header, lost, 52);
TEK_ABI_AT(tek_table_header, program, 56);
TEK_ABI_AT(tek_table_header, pid_namespace, 120);
TEK_ABI_AT(tek_table_header, modules, 128);
TEK_ABI_AT(tek_table_header, kinds, 132);
TEK_ABI_AT(tek_table_header, program_module, 136);
TEK_ABI_AT(tek_table_header, stack_mode, 140);
TEK_ABI_AT(tek_table_header, low_percent, 141);
TEK_ABI_AT(tek_table_header, high_percent, 142);
TEK_ABI_AT(tek_table_header, workers, 144);
TEK_ABI_AT(tek_table_header, image, 148);
TEK_ABI_AT(tek_table_header, boot_offset_ns, 152);
TEK_ABI_AT(tek_table_header, lifts, 160);
TEK_ABI_AT(tek_table_header, lifted_ns, 168);
TEK_ABI_AT(tek_table_header, inversions, 176);
TEK_ABI_AT(tek_table_header, inverted_ns, 184);

TEK_ABI_ASSERT(sizeof(struct tek_request) == 64);
TEK_ABI_AT(tek_request, version, 4);
TEK_ABI_AT(tek_request, kind, 6);
TEK_ABI_AT(tek_request, number, 8);
TEK_ABI_AT(tek_request, tid, 12);
TEK_ABI_AT(tek_request, start_ticks, 16);
TEK_ABI_AT(tek_request, until_ns, 24);
TEK_ABI_AT(tek_request, priority, 32);
TEK_ABI_AT(tek_request, flags, 36);
TEK_ABI_AT(tek_request, group, 40);
TEK_ABI_AT(tek_request, budget_us, 44);
TEK_ABI_AT(tek_request, window_us, 48);

TEK_ABI_ASSERT(sizeof(struct tek_reply) == 128);
TEK_ABI_AT(tek_reply, version, 4);
TEK_ABI_AT(tek_reply, kind, 6);
TEK_ABI_AT(tek_reply, number, 8);
TEK_ABI_AT(tek_reply, tid, 12);
TEK_ABI_AT(tek_reply, error, 16);
TEK_ABI_AT(tek_reply, rt_priority, 20);
TEK_ABI_AT(tek_reply, value, 24);
TEK_ABI_AT(tek_reply, text, 40);

TEK_ABI_ASSERT(sizeof(struct tek_event) == 256);
TEK_ABI_AT(tek_event, bytes, 4);
TEK_ABI_AT(tek_event, kind, 6);
TEK_ABI_AT(tek_event, pid, 8);
TEK_ABI_AT(tek_event, tid, 12);
TEK_ABI_AT(tek_event, time_ns, 16);
TEK_ABI_AT(tek_event, error, 24);
TEK_ABI_AT(tek_event, priority, 28);
TEK_ABI_AT(tek_event, value, 32);
TEK_ABI_AT(tek_event, thread, 64);
TEK_ABI_AT(tek_event, program, 80);
TEK_ABI_AT(tek_event, text, 144);

#endif
