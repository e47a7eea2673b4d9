/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/time_namespace.h"

#include "base/clock.h"
#include "base/procfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The kernel accepts no larger offset; in ns it fits into 64 bits. */
#define MOST_SECONDS INT64_C(4611686018)

static uint64_t tick_ns(void)
{
	long second = sysconf(_SC_CLK_TCK);
	return TEK_NS_PER_SEC / (uint64_t)(second > 0 ? second : 100);
}

/* The offset of a clock in a text of lines with name, seconds and nanoseconds. */
static bool offset_of(const char *text, const char *clock, int64_t *offset)
{
	const char *at = strstr(text, clock);
	char *end;

	if (!at)
		return false;
	int64_t seconds = strtoll(at + strlen(clock), &end, 10);
	long ns = strtol(end, NULL, 10);
	if (seconds < -MOST_SECONDS || seconds > MOST_SECONDS)
		return false;
	*offset = seconds * (int64_t)TEK_NS_PER_SEC + ns;
	return true;
}

/* /proc/self/timens_offsets tells of the namespace of future children. */
static bool is_that_of_children(void)
{
	struct stat own, childrens;
	return stat("/proc/self/ns/time", &own) == 0 &&
	       stat("/proc/self/ns/time_for_children", &childrens) == 0 &&
	       own.st_ino == childrens.st_ino;
}

/* Linux 5.11 began to shift the start times in /proc/PID/stat. */
static bool stat_is_shifted(void)
{
	struct utsname kernel;
	char *end;

	if (uname(&kernel))
		return true;
	long major = strtol(kernel.release, &end, 10);
	long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	return major > 5 || (major == 5 && minor >= 11);
}

bool tek__time_offsets(struct tek_time_offsets *offsets)
{
	struct tek_time_offsets read = {0};
	char text[256];
	int saved = errno;

	*offsets = read;
	if (!tek__procfs_own_text("timens_offsets", text, sizeof(text))) {
		/* A kernel without time namespaces has one clock. */
		bool known = access("/proc/self/stat", F_OK) == 0 &&
			     access("/proc/self/ns/time", F_OK) != 0;
		errno = saved;
		return known;
	}
	bool known = is_that_of_children() && offset_of(text, "monotonic", &read.monotonic_ns) &&
		     offset_of(text, "boottime", &read.boottime_ns);
	errno = saved;
	if (!known)
		return false;
	read.stat_ns = read.boottime_ns && stat_is_shifted() ? read.boottime_ns : 0;
	*offsets = read;
	return true;
}

uint64_t tek__start_ns(pid_t tid, const struct tek_time_offsets *offsets)
{
	uint64_t ticks;

	if (!tek__procfs_stat(tid, TEK_STAT_START_TICKS, &ticks))
		return 0;
	return ticks * tick_ns() - (uint64_t)offsets->stat_ns;
}

bool tek__is_same_start(uint64_t one_ns, uint64_t other_ns)
{
	/* Each reader rounds down, by an offset that need not be a multiple of a tick. */
	return (one_ns > other_ns ? one_ns - other_ns : other_ns - one_ns) < tick_ns();
}
