/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The C library's variables behind program_invocation_short_name and program_invocation_name, under
 * the names that no program may define for itself.  For the same reason TEK reads __environ and
 * not environ.
 */
#ifndef TEK_BASE_PROGRAM_H
#define TEK_BASE_PROGRAM_H

extern char *__progname;      /* the last part of the path */
extern char *__progname_full; /* the path by which the program was started */

#endif
