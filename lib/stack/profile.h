/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stack profile of earlier runs of this program: the file BUILD-ID.stack in the directory of
 * the profiles; tek-stack-profile(5). `tek` writes it, this reads it. Its content is untrusted.
 *
 * Both halves judge each line alike; tests/profiles/lines.txt has the cases.
 */
#ifndef TEK_STACK_PROFILE_H
#define TEK_STACK_PROFILE_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TEK_PROFILE_MOST_BYTES = 1 << 20,
	TEK_PROFILE_MOST_KINDS = 4096,
	TEK_PROFILE_MOST_STACK = 1 << 30, /* of all sizes */
};

/* A place in a file: its build id in hexadecimal, or `@` and its name if it has none. */
struct tek_place {
	char module[48];
	uint64_t offset; /* address in its ELF headers */
};

/* A label as struct tek_kind has it. */
struct tek_label {
	unsigned char is; /* TEK_LABEL_*, or: */
	char text[TEK_ROLE_BYTES];
};
enum { TEK_LABEL_TOO_LONG = 255 }; /* no thread of this version can have it */

struct tek_learnt {
	struct tek_place function;
	struct tek_place caller; /* module "" if it is not known */
	struct tek_label label;
	uint64_t bound_bytes;
	uint64_t least_bytes;    /* bound of the run with the lowest one; 0: not known */
	uint64_t peak_bytes;     /* certainly used by one of them; 0: not known */
	uint64_t overflow_bytes; /* 0: none */
	uint64_t threads;        /* that were measured */
	uint64_t runs;           /* that had such threads */
};

/*
 * Calls visit for each kind in the text, for the first TEK_PROFILE_MOST_KINDS of them; false if
 * it is no profile, or a later version's.
 */
bool tek__profile_parse(const char *text, size_t bytes,
			void (*visit)(const struct tek_learnt *, void *), void *context);

/*
 * The same with a file, if it and its directory are root's or the user's and no other user can
 * write to them. A writer of the directory could put an older file of the user's in its place.
 */
bool tek__profile_read(const char *path, void (*visit)(const struct tek_learnt *, void *),
		       void *context);

#endif
