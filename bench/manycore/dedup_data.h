/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The input of dedup, and whether its output can be unpacked again. */
#ifndef MANYCORE_DEDUP_DATA_H
#define MANYCORE_DEDUP_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Words of a made-up language, of which about half was there before. */
void dedup_generate(uint8_t *data, size_t size);

/*
 * The output is a row of records: RECORD_NEW, the size of what follows in 4 bytes, of this
 * machine's order, and that, by zlib; or RECORD_KNOWN and the SHA-1 of a chunk that came before.
 */
enum { RECORD_NEW = 1, RECORD_KNOWN = 2 };

/* Whether the file, from its beginning, gives this data. */
bool dedup_unpacks_to(FILE *file, const uint8_t *data, size_t size);

#endif
