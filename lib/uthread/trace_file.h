/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The file of a trace (abi/tek_trace.h): the source of blocks.
 *
 * Several processes can have the same one open: that of `tek run --trace`, and its children. A
 * block belongs to the process that first counts it in the header. The descriptor stays open,
 * hidden from the program (hidden.h), and is checked before each use. A program that bypasses our
 * functions may have put a file of its own there: that one is left alone.
 *
 * Not for signal handlers; one caller at a time.
 */
#ifndef TEK_UTHREAD_TRACE_FILE_H
#define TEK_UTHREAD_TRACE_FILE_H

#include "tek_trace.h"

#include <stdint.h>

/* Opens it, or makes it. 0 or an error number; EBADMSG: it is no trace of this version. */
int tek_ut__trace_file_open(const char *path);

/*
 * A new block, all of it in memory, for this worker of the engine that started at `start_ns`. NULL:
 * there is no room, or the file is not accessible any more.
 */
struct tek_trace_block *tek_ut__trace_block_make(unsigned int worker, unsigned int sequence,
						 uint64_t start_ns);

/* No thread writes there any more. NULL is fine. */
void tek_ut__trace_block_done(struct tek_trace_block *block);

#endif
