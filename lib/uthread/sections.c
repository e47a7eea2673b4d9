/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/sections.h"

#include "uthread/here.h"
#include "uthread/monitor.h"
#include "uthread/spin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Beginnings of the names of files. */
static const char *const deferred[] = {
	"libc.so",     "libc-",     "ld-linux", "ld-",      "ld64",    "libpthread",  "libdl",
	"librt.so",    "libresolv", "libnss_",  "libgcc_s", "libtek",  "libjemalloc", "libtcmalloc",
	"libmimalloc", "libasan",   "libtsan",  "libubsan", "liblsan", "libhwasan",
};

struct range {
	uintptr_t from, to;
	bool deferred;
};

/* More than Linux allows a process by default (vm.max_map_count, 65530). */
#define RANGES 65536
#define FIRST_RANGES 128 /* most programs have fewer */
struct ranges {
	unsigned int count, most;
	struct range *of;
};

/* One is read while the other one is filled; a reader in a signal handler takes almost no time. */
static struct ranges buffers[2];
static _Atomic(struct ranges *) current;
static atomic_flag is_being_filled = ATOMIC_FLAG_INIT;
static atomic_bool asked;

static bool is_deferred(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	/* Not a program with such a name. */
	if (!strstr(name, ".so"))
		return false;
	for (size_t i = 0; i < sizeof(deferred) / sizeof(deferred[0]); i++) {
		if (strncmp(name, deferred[i], strlen(deferred[i])) == 0)
			return true;
	}
	return false;
}

static const char *parse_address(const char *text, uintptr_t *address)
{
	for (*address = 0;; text++) {
		if (*text >= '0' && *text <= '9')
			*address = *address << 4 | (uintptr_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			*address = *address << 4 | (uintptr_t)(*text - 'a' + 10);
		else
			return text;
	}
}

/*
 * Whether there is room for one more. A too small array stays, as a reader may still be in it.
 */
static bool has_room(struct ranges *ranges)
{
	const unsigned int most = ranges->most ? ranges->most * 2 : FIRST_RANGES;

	if (ranges->count < ranges->most)
		return true;
	if (most > RANGES)
		return false;
	struct range *of = mmap(NULL, most * sizeof(*of), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (of == MAP_FAILED)
		return false;
	if (ranges->count)
		memcpy(of, ranges->of, ranges->count * sizeof(*of));
	ranges->of = of;
	ranges->most = most;
	return true;
}

/* A line of /proc/PID/maps: FROM-TO PERMISSIONS OFFSET DEVICE INODE PATH; proc(5). */
static void add(struct ranges *ranges, const char *line)
{
	enum { FIELDS_TO_PATH = 4 };
	struct range range;

	line = parse_address(line, &range.from);
	if (*line++ != '-')
		return;
	line = parse_address(line, &range.to);
	if (strnlen(line, 4) < 4 || line[3] != 'x' || !has_room(ranges))
		return;
	for (int field = 0; field < FIELDS_TO_PATH && line; field++)
		line = strchr(line + 1, ' ');
	range.deferred = line && is_deferred(line);
	ranges->of[ranges->count++] = range;
}

/* In the order of addresses, as the kernel has them. */
static void read_lines(struct ranges *ranges, int file)
{
	static char text[8192]; /* more than a line, with the longest path */
	size_t filled = 0;
	long bytes;

	while ((bytes = syscall(SYS_read, file, text + filled, sizeof(text) - 1 - filled)) > 0) {
		char *line = text, *end;
		filled += (size_t)bytes;
		text[filled] = '\0';
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			add(ranges, line);
			line = end + 1;
		}
		filled -= (size_t)(line - text);
		memmove(text, line, filled);
	}
}

int tek_ut__sections_find(void)
{
	/* The filling thread may have begun before the change that the caller needs. */
	if (atomic_flag_test_and_set(&is_being_filled))
		return EAGAIN;
	struct ranges *next = atomic_load(&current) == &buffers[0] ? &buffers[1] : &buffers[0];
	int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int error = file < 0 ? errno : 0;

	next->count = 0;
	if (!error) {
		read_lines(next, file);
		syscall(SYS_close, file);
		error = next->count ? 0 : EIO;
	}
	if (!error)
		atomic_store(&current, next);
	atomic_flag_clear(&is_being_filled);
	return error;
}

void tek_ut__sections_update(void)
{
	if (atomic_exchange(&asked, false))
		tek_ut__sections_find();
}

void tek_ut__sections_changed(void)
{
	if (!tek_ut__monitor_runs()) {
		tek_ut__sections_find();
		return;
	}
	atomic_store(&asked, true);
	tek_ut__monitor_wake();
}

void tek_ut__sections_after_fork(void)
{
	/* The filling thread is not there in the child. */
	atomic_flag_clear(&is_being_filled);
}

/* NULL: it is in no library. */
static const struct range *range_of(const struct ranges *ranges, uintptr_t address)
{
	unsigned int low = 0, high = ranges->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		const struct range *range = &ranges->of[middle];
		if (address < range->from)
			high = middle;
		else if (address >= range->to)
			low = middle + 1;
		else
			return range;
	}
	return NULL;
}

bool tek_ut__sections_allow(uintptr_t address)
{
	const struct ranges *ranges = atomic_load(&current);
	const struct range *range = ranges ? range_of(ranges, address) : NULL;

	if (tek_ut__here_contains(address))
		return false;
	if (range)
		return !range->deferred;
	/* A full list will not have this range after another reading either. */
	if (!ranges || ranges->count < RANGES)
		tek_ut__sections_changed();
	return false;
}
