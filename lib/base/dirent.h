/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Entries of a directory as getdents64(2) returns them. The C library's opendir() allocates memory.
 */
#ifndef TEK_BASE_DIRENT_H
#define TEK_BASE_DIRENT_H

#include <stdint.h>

struct tek_dirent {
	uint64_t inode;
	int64_t offset;
	unsigned short bytes;
	unsigned char type;
	char name[];
};

#endif
