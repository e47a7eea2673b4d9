/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which files lie where in the process, so that `tek` can name functions and objects. */
#ifndef TEK_PROFILE_MODULES_H
#define TEK_PROFILE_MODULES_H

/* Writes down those that there are now and were not before; takes the loader's lock. */
void tek__profile_modules_note(void);

struct tek_profile_header;

/*
 * In the child of a fork: those that the parent wrote down.  Another thread of the parent may have had the
 * loader's lock, which nobody gives back here.
 */
void tek__profile_modules_copy(struct tek_profile_header *to,
			       const struct tek_profile_header *from);

#endif
