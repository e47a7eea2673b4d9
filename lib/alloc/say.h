/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages of the allocator, on standard error, without allocating. */
#ifndef TEK_ALLOC_SAY_H
#define TEK_ALLOC_SAY_H

__attribute__((format(printf, 1, 2))) void tek_alloc__say(const char *format, ...);

#endif
