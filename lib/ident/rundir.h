/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The directory of the table files: $TEK_RUN_DIR, else /run/tek as root, else
 * $XDG_RUNTIME_DIR/tek.  A process that was killed leaves its file behind; who
 * makes a new one in a default directory removes those first, so that they cannot pile up
 * where nobody runs `tek`.
 *
 * A process is dead if its pid and start time say so.  Of a process of another pid
 * namespace nothing can be said, so its file stays; who has the same pid here does without.
 *
 * The functions need no lock and allocate nothing.
 */
#ifndef TEK_IDENT_RUNDIR_H
#define TEK_IDENT_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Path of this process's table file; false if there is nowhere to put it. */
bool tek__rundir_table(char *path, size_t size);

/* Whether a process of another pid namespace made this table file. */
bool tek__rundir_is_foreign(const char *path);

/* Whether $TEK_RUN_DIR names it: somebody waits there for what processes leave. */
bool tek__rundir_is_given(void);

/* How names of tables end: ".table", or that of a table of native user-level threads. */
#define TEK_RUNDIR_NATIVE ".native.table"
extern const char *tek__rundir_ending;

/*
 * Make the default directory if it is missing, and remove what dead processes left in it; what
 * they leave in a given one is for its owner.
 * False if there is none, or if others than this user and root can write to it.
 */
bool tek__rundir_prepare(void);

#endif
