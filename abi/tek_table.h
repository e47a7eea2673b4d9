/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The thread information table in shared memory: its file, and what is in it beside the threads
 * (tek_record.h) and the inversions (tek_inversions.h).
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
#ifndef TEK_TABLE_ABI_H
#define TEK_TABLE_ABI_H

#include "tek_types.h"

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

#endif
