/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests of lifts share. */
#ifndef TEK_TESTS_INHERIT_SUPPORT_H
#define TEK_TESTS_INHERIT_SUPPORT_H

#include "support.h"

#include <time.h>

/* A lift is waited for this long, also where other programs use all CPUs. */
enum { PATIENCE_MS = 20000 };

/* Whether a thread is Fast, or is not, within the time. */
static inline bool becomes(pid_t tid, bool fast)
{
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		if (is_fast(tid) == fast)
			return true;
		sleep_ms(1);
	}
	return false;
}

static inline struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_sec += ms / 1000;
	time.tv_nsec += ms % 1000 * 1000000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

static inline void await(const _Atomic pid_t *tid)
{
	while (!*tid)
		sleep_ms(1);
}

/* Whether a thread sleeps in the kernel within the time. */
static inline bool sleeps(pid_t tid)
{
	char path[64], state = '?';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = '?';
		if (file)
			fclose(file);
		if (state == 'S')
			return true;
		sleep_ms(1);
	}
	return false;
}

#endif
