/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages of the allocator, on standard error, without allocating. */
#ifndef TEK_ALLOC_REPORT_H
#define TEK_ALLOC_REPORT_H

__attribute__((format(printf, 1, 2))) void tek_alloc__report(const char *format, ...);

#endif
