/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Comes before the C library's <features.h> (meson.build, tools/cargo), so that a build runs with
 * glibc 2.36, whatever C library it was made with.
 *
 * Since version 2.38 the headers put functions in the place of strtol(3) and sscanf(3) that older
 * ones do not have: __isoc23_strtol knows binary numbers.  Here they do not.
 */
#include_next <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL /* the same from version 2.40 on */
#define __GLIBC_USE_C23_STRTOL 0
