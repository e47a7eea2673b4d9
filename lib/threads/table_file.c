/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The name of the table's file while the process lives, and what becomes of the file then. */
#include "threads/table.h"

#include "base/clock.h"
#include "base/owner.h"
#include "threads/rundir.h"
#include "threads/table_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where the table is while a program is being replaced that may come back. */
static bool hidden_path(char *hidden, const char *path)
{
	return snprintf(hidden, sizeof(tek__table.path), "%s~", path) <
	       (int)sizeof(tek__table.path);
}

/*
 * The name under which a table stays. The pid and the start time of this process may recur; the
 * time in the name does not.
 */
static bool ended_path(char *ended, const char *path)
{
	const char *slash = strrchr(path, '/');
	int directory = slash ? (int)(slash - path) : 0;

	return snprintf(ended, sizeof(tek__table.ended), "%.*s/%d-%llu.ended", directory, path,
			(int)tek__owner->pid(), (unsigned long long)tek__now(CLOCK_BOOTTIME)) <
	       (int)sizeof(tek__table.ended);
}

/* Whether a stack was measured, or ran over, in the process that a table of ours was. */
static bool has_news(const struct tek_kind *kinds, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (kinds[i].threads || kinds[i].overflows)
			return true;
	return false;
}

/* The same of a table in a file. */
static bool file_has_news(const char *path)
{
	struct tek_table_header header;
	struct tek_kind kinds[16];
	bool news = false;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	if (pread(fd, &header, sizeof(header), 0) == sizeof(header) &&
	    header.magic == TEK_TABLE_MAGIC && header.version == TEK_ABI_VERSION &&
	    header.kinds <= TEK_MAX_KINDS) {
		for (unsigned int i = 0; !news && i < header.kinds;) {
			ssize_t got = pread(fd, kinds, sizeof(kinds),
					    (off_t)(TEK_KINDS_OFFSET + i * sizeof(*kinds)));
			unsigned int count = got < 0 ? 0 : (unsigned int)got / sizeof(*kinds);
			if (!count)
				break;
			if (count > header.kinds - i)
				count = header.kinds - i;
			news = has_news(kinds, count);
			i += count;
		}
	}
	close(fd);
	return news;
}

void tek__table_retire(const char *path)
{
	char ended[sizeof(tek__table.ended)];

	if (!tek__rundir_is_given() || !file_has_news(path) || !ended_path(ended, path) ||
	    rename(path, ended))
		unlink(path);
}

void tek__table_remove_stale(void)
{
	char path[sizeof(tek__table.path)], hidden[sizeof(tek__table.path)];
	if (tek__table.base || !tek__rundir_table(path, sizeof(path)))
		return;
	if (!tek__rundir_is_foreign(path))
		tek__table_retire(path);
	if (hidden_path(hidden, path) && !tek__rundir_is_foreign(hidden))
		tek__table_retire(hidden);
}

/* Whether this process's table is to stay once it has ended; then *ended is its name. */
static bool is_to_stay(char *ended)
{
	const unsigned int listed = tek__table_header()->kinds;
	const unsigned int count = listed < tek__table.kinds ? listed : tek__table.kinds;

	return tek__table.awaited && has_news(tek__table_kind_at(1), count) &&
	       ended_path(ended, tek__table.path);
}

/* An exec that succeeds is the end of what the table is about: it gets its last name now. */
void tek__table_hide(void)
{
	if (!tek__table.path[0])
		return;
	if (!is_to_stay(tek__table.ended) && !hidden_path(tek__table.ended, tek__table.path))
		tek__table.ended[0] = '\0';
	else if (rename(tek__table.path, tek__table.ended))
		tek__table.ended[0] = '\0';
}

/* If it is gone, another process took it for the table of an ended process. */
void tek__table_show(void)
{
	if (tek__table.ended[0] && rename(tek__table.ended, tek__table.path))
		tek__table.path[0] = '\0';
	tek__table.ended[0] = '\0';
}

void tek__table_end(void)
{
	char ended[sizeof(tek__table.ended)];

	if (tek__table.path[0] && (!is_to_stay(ended) || rename(tek__table.path, ended)))
		unlink(tek__table.path);
	tek__table.path[0] = '\0';
}
