/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The file of a trace (abi/tek_trace.h): where blocks come from.
 *
 * Several processes can have the same one open: that of `tek run --trace`, and what it starts.  A block is given to
 * whoever counts it in the header first.  The descriptor is kept, hidden from the program (hidden.h), and looked at
 * before each use: one that goes past our functions, and has a file of its own there, keeps that.
 *
 * Not for signal handlers; one caller at a time.
 */
#ifndef TEK_UTHREAD_TRACE_FILE_H
#define TEK_UTHREAD_TRACE_FILE_H

#include "tek_trace.h"

#include <stdint.h>

/* Opens it, or makes it. 0 or an error number; EBADMSG: it is no trace of this version. */
int tek__trace_file_open(const char *path);

/*
 * A new block, all of it in memory, for this worker of the engine that started at `start_ns`.  NULL: there is no
 * room, or the file cannot be had any more.
 */
struct tek_trace_block *tek__trace_block_make(unsigned int worker, unsigned int sequence,
					      uint64_t start_ns);

/* Nobody writes there any more. NULL is fine. */
void tek__trace_block_done(struct tek_trace_block *block);

#endif
