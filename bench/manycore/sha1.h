/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* SHA-1 (FIPS 180-4): by which dedup distinguishes chunks. Not for secrets. */
#ifndef MANYCORE_SHA1_H
#define MANYCORE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_BYTES 20

void sha1(const void *data, size_t size, uint8_t digest[SHA1_BYTES]);

#endif
