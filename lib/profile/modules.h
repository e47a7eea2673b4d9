/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The files in the process and their addresses, so that `tek` can name functions and objects. */
#ifndef TEK_PROFILE_MODULES_H
#define TEK_PROFILE_MODULES_H

#include "base/files.h"

/* Adds the modules that were loaded since the last call; takes the loader's lock. */
void tek_prof__modules_note(void);

/* The modules in the file, for base/start_routine.h. */
extern const struct tek_files tek_prof__files;

struct tek_profile_header;

/*
 * In the child of a fork: the modules that the parent recorded. Another thread of the parent may
 * have held the loader's lock, which is never released here.
 */
void tek_prof__modules_copy(struct tek_profile_header *to, const struct tek_profile_header *from);

#endif
