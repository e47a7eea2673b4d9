/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libtek-profile.so gives a routine of its own to the next pthread_create(). libtek.so's
 * pthread_create(), which distinguishes threads by their function and call site, queries the
 * program's routine here.
 */
#ifndef TEK_BASE_PASSED_H
#define TEK_BASE_PASSED_H

#include "base/export.h"

struct tek_passed {
	void *(*routine)(void *);
	void *argument;
	const void *call_site;
};

/*
 * The thread that the caller is about to create; NULL: it is not in libtek-profile.so's
 * pthread_create().
 */
TEK_EXPORT const struct tek_passed *tek_prof__passed(void);

#endif
