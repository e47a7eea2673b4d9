/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trace of user-level threads: which thread ran where. The engine writes it
 * (lib/uthread/trace.c), and `tek run --trace` reads it when the program has ended.
 *
 * The file
 * --------
 *   offset 0                  struct tek_trace_header, padded
 *   TEK_TRACE_HEADER_BYTES    block 0, block 1, ... of TEK_TRACE_BLOCK_BYTES
 *
 * A block belongs to one worker of one process and is mapped there: struct tek_trace_block,
 * then records.  What was written is in the file at once, so a program that is killed loses
 * nothing.  Processes that a traced program starts have blocks in the same file.
 *
 * A record counts if its time is not 0: that is written last. The first one without ends its block.
 * A block without its magic is unused (yet). Those of a worker are in order by `sequence`.
 *
 * This header is for C, and crates/tek-abi repeats it.  Change a struct and TEK_TRACE_VERSION
 * changes too.
 */
#ifndef TEK_TRACE_ABI_H
#define TEK_TRACE_ABI_H

#include "tek_abi.h"

#define TEK_TRACE_VERSION 1u
#define TEK_TRACE_MAGIC 0x45434152544b4554ull /* "TEKTRACE", little-endian */
#define TEK_TRACE_BLOCK_MAGIC 0x424b4554u     /* "TEKB" */
#define TEK_TRACE_HEADER_BYTES 65536u         /* the largest page that Linux has */
#define TEK_TRACE_BLOCK_BYTES 1048576u

/* The worker of a block of what threads did that are on none. */
#define TEK_TRACE_NO_WORKER 0xffffffffu

/* struct tek_trace_record.kind */
#define TEK_TRACE_SWITCH 1u /* `thread` left, for `reason`, and `other` runs; 0: no thread */
#define TEK_TRACE_READY 2u  /* `thread` can run, because of `other`; 0: its time has come */
#define TEK_TRACE_NAME 3u   /* `other`: 8 bytes of the name of `thread`, from 8 x `reason` on */
#define TEK_TRACE_TEXT 4u   /* the same, of what is waited for: TEK_TRACE_WAITS + `thread` */

/* Why a thread left: struct tek_trace_record.reason of a switch. */
#define TEK_TRACE_IDLE 0u      /* no thread left: the worker had nothing to do */
#define TEK_TRACE_YIELDED 1u   /* it yielded */
#define TEK_TRACE_PREEMPTED 2u /* its quantum was over, or a thread goes before it */
#define TEK_TRACE_ENDED 3u
#define TEK_TRACE_HELD_UP 4u /* in the kernel: its worker was given to another kernel thread */
#define TEK_TRACE_WAITS 8u   /* for something; more than that: for that text */

#define TEK_TRACE_TEXT_BYTES 32u /* of a text, at most; a name has 16 */

struct tek_trace_header {
	tek_u64 magic;   /* TEK_TRACE_MAGIC */
	tek_u32 version; /* TEK_TRACE_VERSION */
	tek_u32 reserved;
	tek_u64 blocks; /* that were given to processes; atomic */
};

struct tek_trace_block {
	tek_u32 magic; /* TEK_TRACE_BLOCK_MAGIC, written last */
	tek_u32 worker;
	tek_u32 pid;
	tek_u32 sequence;   /* of the worker's blocks, from 0 */
	tek_u64 start_ns;   /* when the engine started: pid and this say which one it was */
	tek_u64 lost;       /* records of the worker without room, from its first block on */
	tek_u8 program[32]; /* name of the program, NUL-terminated */
};

struct tek_trace_record {
	tek_u64 time_ns; /* CLOCK_MONOTONIC */
	tek_u64 thread;
	tek_u64 other;
	tek_u32 tid; /* of the kernel thread that wrote it; 0: not known */
	tek_u16 reserved;
	tek_u8 kind;
	tek_u8 reason;
};

TEK_ABI_ASSERT(sizeof(struct tek_trace_header) == 24);
TEK_ABI_AT(tek_trace_header, magic, 0);
TEK_ABI_AT(tek_trace_header, version, 8);
TEK_ABI_AT(tek_trace_header, reserved, 12);
TEK_ABI_AT(tek_trace_header, blocks, 16);

TEK_ABI_ASSERT(sizeof(struct tek_trace_block) == 64);
TEK_ABI_AT(tek_trace_block, magic, 0);
TEK_ABI_AT(tek_trace_block, worker, 4);
TEK_ABI_AT(tek_trace_block, pid, 8);
TEK_ABI_AT(tek_trace_block, sequence, 12);
TEK_ABI_AT(tek_trace_block, start_ns, 16);
TEK_ABI_AT(tek_trace_block, lost, 24);
TEK_ABI_AT(tek_trace_block, program, 32);

TEK_ABI_ASSERT(sizeof(struct tek_trace_record) == 32);
TEK_ABI_AT(tek_trace_record, time_ns, 0);
TEK_ABI_AT(tek_trace_record, thread, 8);
TEK_ABI_AT(tek_trace_record, other, 16);
TEK_ABI_AT(tek_trace_record, tid, 24);
TEK_ABI_AT(tek_trace_record, reserved, 28);
TEK_ABI_AT(tek_trace_record, kind, 30);
TEK_ABI_AT(tek_trace_record, reason, 31);

#endif
