/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Thread-local variables, and whether they have their first values. */
#ifndef TESTS_TLS_SUPPORT_H
#define TESTS_TLS_SUPPORT_H

#include "uthread_raw.h"

#include <dlfcn.h>
#include <locale.h>
#include <netdb.h>
#include <search.h>
#include <string.h>

enum { FIRST_VALUE = 42, THREADS = 40, ROUNDS = 200 };

static __thread int with_value = FIRST_VALUE;
static __thread char zeros[5000];

static inline bool is_new(void)
{
	bool new = with_value == FIRST_VALUE;

	for (size_t i = 0; i < sizeof(zeros); i++)
		new = new && !zeros[i];
	return new &&errno == 0 && h_errno == 0 && uselocale((locale_t)0) == LC_GLOBAL_LOCALE &&
	       !dlerror();
}

static inline void leave_traces(void)
{
	with_value = 1;
	memset(zeros, 1, sizeof(zeros));
	errno = EXDEV;
	h_errno = TRY_AGAIN;
	dlopen("/does/not/exist", RTLD_NOW);
	uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static inline void note_whether_new(void *argument)
{
	*(bool *)argument = is_new();
	leave_traces();
}

#endif
