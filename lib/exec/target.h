/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Can TEK ride in a program that is about to run?  libtek.so gets into it by
 * LD_PRELOAD, which children inherit.  Where it cannot get in nothing happens,
 * and where it would do harm it has to be kept out.
 *
 * Everything here is async-signal-safe: it runs in the children of fork() and
 * vfork() too.
 */
#ifndef TEK_EXEC_TARGET_H
#define TEK_EXEC_TARGET_H

#include <stdbool.h>
#include <stddef.h>

enum tek_fit {
	TEK_FITS,     /* the loader will take libtek.so in */
	TEK_CROSSES,  /* of another word size: it will take tek__target_sibling() in */
	TEK_PASSES,   /* the loader will ignore it, silently */
	TEK_DISTURBS, /* it would break the program or make the loader complain */
};

struct tek_verdict {
	enum tek_fit fit;
	const char *why; /* for TEK_PASSES and TEK_DISTURBS: of abi/tek_targets.h */
};

/* Examine an open file; scripts are followed to their interpreter. An unreadable file fits. */
struct tek_verdict tek__target_examine_fd(int fd);

/* The same by path; *path relative to the directory `directory` (AT_FDCWD). */
struct tek_verdict tek__target_examine(int directory, const char *path);

/* Room for a path: exec is called on small stacks too, and longer ones are not examined. */
enum { TEK_TARGET_PATH_BYTES = 512 };

/*
 * The path that execvp(3) would run for `file`, into `path`; `file` itself if it
 * has a slash or is not found.
 */
const char *tek__target_search(const char *file, char *path, size_t size);

/* At the start: find out what this process itself is, and where its library lies. */
void tek__target_start(void);

/*
 * At the start: the library keeps out of more programs of abi/tek_targets.h. With another allocator
 * these are programs with a sanitizer; libtek-uthread.so keeps out of all.
 */
void tek__target_add_sanitizers(void);
void tek__target_add_uthreads(void);

/*
 * The libtek.so for programs of the other word size: NULL unless this one lies in a directory
 * that is one of two for both (such as lib and lib32), and there is one in the other. Constant.
 */
const char *tek__target_sibling(void);

/*
 * The path of the sibling of a libtek.so, whether it is there or not, into `sibling`; false
 * if there is none for such a path.
 */
bool tek__target_sibling_of(const char *library, char *sibling, size_t size);

#endif
