/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Descriptors that TEK keeps open in a program which knows nothing of them.  The program may
 * count on low numbers, close those that it does not know, and put files of its own there.
 *
 * Nothing here needs a lock or allocates memory; async-signal-safe.
 */
#ifndef TEK_BASE_DESCRIPTOR_H
#define TEK_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/types.h>

/* The identity of a descriptor's file: the number can come to stand for another one. */
struct tek_file_identity {
	dev_t device;
	ino_t inode;
};

/*
 * Move it to where programs that count or close their descriptors from below do not meet it,
 * close-on-exec.  Returns the new number; the old one where there is no room.
 */
int tek__descriptor_move_up(int fd);

/* The descriptor's file now; false, with *file as it was, if there is none. */
bool tek__descriptor_file(int fd, struct tek_file_identity *file);

/* Whether it still stands for that file. */
bool tek__descriptor_is(int fd, struct tek_file_identity file);

#endif
