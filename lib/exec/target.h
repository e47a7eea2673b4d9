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
	const char *why; /* half a sentence for TEK_PASSES and TEK_DISTURBS */
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
 * At the start: ours disturbs a program that needs a library with this prefix of its name. Both
 * strings must stay valid. AddressSanitizer is preset; there is room for a few more.
 */
void tek__target_disturbs(const char *library, const char *why);

/*
 * The same for a program with a file of this name beside it, which identifies the program. And for
 * programs with an ELF note of this owner ("Go").
 */
void tek__target_disturbs_beside(const char *file, const char *why);
void tek__target_disturbs_note(const char *owner, const char *why);

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
