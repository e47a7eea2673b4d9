/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread with a record of its time, in a directory of its own. */
#ifndef TESTS_ACCOUNT_SUPPORT_H
#define TESTS_ACCOUNT_SUPPORT_H

#include "support.h"

#include "profile/account.h"

#include <stdio.h>
#include <stdlib.h>

#define HERE __builtin_frame_address(0)

static char directory[] = "/tmp/tek-test-profile-XXXXXX";

static inline struct tek_profile_thread *self(void)
{
	return tek_prof__thread();
}

static inline void pass(uint64_t ns)
{
	uint64_t end = tek_prof__monotonic_ns() + ns;

	while (tek_prof__monotonic_ns() < end)
		;
}

static inline int begin(void **state)
{
	char variable[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(variable, sizeof(variable), "MONOTONIC:0:%s", directory);
	assert_null(tek_prof__file_make(variable));
	tek_prof__threads_prepare();
	tek_prof__thread_begin(tek_prof__file_take_thread());
	tek_prof__threads_open();
	return 0;
}

static inline int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static int thing;

#endif
