/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The directory of the table files: $TEK_RUN_DIR, else /run/tek as root, else $XDG_RUNTIME_DIR/tek.
 * A killed process leaves its file behind. A process that makes its own in a default directory
 * first removes the files of dead processes, so that they cannot pile up where `tek` never runs.
 *
 * The pid and the start time show that a process is dead. For a process of another pid namespace
 * this is unknown, so its file stays; a process with the same pid here has no table file.
 *
 * The functions need no lock and allocate nothing.
 */
#ifndef TEK_THREADS_RUNDIR_H
#define TEK_THREADS_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Path of this process's table file; false if there is nowhere to put it. */
bool tek__rundir_table(char *path, size_t size);

/* Whether a process of another pid namespace made this table file. */
bool tek__rundir_is_foreign(const char *path);

/* True if $TEK_RUN_DIR names it: its owner waits there for the files that processes leave. */
bool tek__rundir_is_given(void);

/* How names of tables end: ".table", or that of a table of native user-level threads. */
#define TEK_RUNDIR_NATIVE ".native.table"
extern const char *tek__rundir_ending;

/*
 * Make the default directory if it is missing, and remove what dead processes left in it; what they
 * leave in a given one is for its owner. False if there is none, or if users other than this one
 * and root can write to it.
 */
bool tek__rundir_prepare(void);

#endif
