/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The two kinds of files of the paper (3.2.1), as streams of the C library: on tmpfs, through the
 * kernel's system calls as Linux has it, or in memory of this process, as the RAMfs of an RTOS is.
 * Both are gone with the stream.
 *
 * One thread at a time, as any stream.
 */
#ifndef MANYCORE_FILE_H
#define MANYCORE_FILE_H

#include <stdint.h>
#include <stdio.h>

/*
 * An empty file to write, then to read after rewind(). Exits with a message if there can be none.
 */
FILE *file_create(void);

/*
 * A fingerprint (FNV-1a) of what is in it, from the beginning. Exits with a message if it cannot be
 * read.
 */
uint64_t file_fingerprint(FILE *file);

/* Closes it. Exits with a message if something could not be written. */
void file_close(FILE *file);

#endif
