/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The files in the process and their addresses, so that `tek` can name functions and objects. */
#ifndef TEK_PROFILE_MODULES_H
#define TEK_PROFILE_MODULES_H

/* Writes down those that there are now and were not before; takes the loader's lock. */
void tek__profile_modules_note(void);

struct tek_profile_header;

/*
 * In the child of a fork: the modules that the parent recorded. Another thread of the parent may
 * have held the loader's lock, which is never released here.
 */
void tek__profile_modules_copy(struct tek_profile_header *to,
			       const struct tek_profile_header *from);

#endif
