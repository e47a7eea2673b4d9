/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The counts of locks of kind auto: reported when the program ends, if requested. */
#include "base/channel.h"
#include "base/line.h"
#include "preload/sync/mutex.h"
#include "preload/sync/start.h"
#include "sync/forked.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <unistd.h>

static void report(struct tek_line *line)
{
	line->text[line->length++] = '\n';
	tek__channel_report(line->text, line->length);
}

/* Where a lock lies: in a file, or in none. */
struct place {
	char file[256]; /* empty: none */
	const char *symbol;
	uintptr_t offset;  /* behind the symbol */
	uintptr_t address; /* in the ELF headers of the file */
};

static struct place find_place(const void *at)
{
	struct place place = {.file = ""};
	const struct link_map *map;
	void *found;
	Dl_info info;

	if (!dladdr1(at, &info, &found, RTLD_DL_LINKMAP))
		return place;
	map = found;
	/* Of the program itself the loader knows what it was called by. */
	if (*map->l_name)
		strncpy(place.file, map->l_name, sizeof(place.file) - 1);
	else if (readlink("/proc/self/exe", place.file, sizeof(place.file) - 1) < 0)
		strcpy(place.file, "?");
	place.symbol = info.dli_sname;
	place.offset = (uintptr_t)at - (uintptr_t)info.dli_saddr;
	place.address = (uintptr_t)at - map->l_addr;
	return place;
}

static void add_place(struct tek_line *line, const void *at)
{
	const struct place place = find_place(at);
	const char *slash = strrchr(place.file, '/');

	if (place.symbol) {
		tek__line_add(line, place.symbol);
		if (place.offset)
			tek__line_add(line, "+0x"), tek__line_add_hex(line, place.offset);
		return;
	}
	tek__line_add(line, "at 0x");
	tek__line_add_hex(line, *place.file ? place.address : (uintptr_t)at);
	if (*place.file) {
		tek__line_add(line, " of ");
		tek__line_add(line, slash ? slash + 1 : place.file);
	}
}

static void report_one(const void *at, const struct tek_lock_auto_counts *counts)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek:   lock ");
	add_place(&line, at);
	tek__line_add(&line, counts->to_park > counts->to_spin ? ": sleeps" : ": spins again");
	tek__line_add(&line, "; went to sleeping ");
	tek__line_add_number(&line, counts->to_park);
	tek__line_add(&line, counts->to_park == 1 ? " time" : " times");
	report(&line);
}

static void report_all(const struct tek_lock_auto_counts *counts)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek: locks of ");
	tek__line_add(&line, tek__channel_program());
	tek__line_add(&line, " that auto chose for: ");
	tek__line_add_number(&line, counts->to_park);
	tek__line_add(&line, " went from spinning to sleeping, ");
	tek__line_add_number(&line, counts->to_spin);
	tek__line_add(&line, " back; all others spin");
	report(&line);
}

static struct tek_event event_of(unsigned int kind, const struct tek_lock_auto_counts *counts)
{
	struct tek_event event = tek__channel_event(kind);

	event.value[0] = counts->to_park;
	event.value[1] = counts->to_spin;
	return event;
}

/* The file gets the report also where the program has closed its standard error. */
static void append_all(const struct tek_lock_auto_counts *counts)
{
	const struct tek_event event = event_of(TEK_EVENT_LOCKS, counts);

	if (!tek__channel_append(&event))
		report_all(counts);
}

static void append_one(const void *at, const struct tek_lock_auto_counts *counts)
{
	struct tek_event event = event_of(TEK_EVENT_LOCK, counts);
	const struct place place = find_place(at);

	event.value[2] = place.address;
	event.value[3] = (uintptr_t)at;
	tek__channel_copy_tail(event.text, sizeof(event.text), place.file);
	if (!tek__channel_append(&event))
		report_one(at, counts);
}

/* Of a process that ends by exit(3), and is not a child that has run nothing else. */
__attribute__((destructor)) static void finish(void)
{
	const struct tek_sync_chosen *chosen = &tek_sync__chosen;
	struct tek_lock_auto_counts counts;
	const struct tek_lock *lock;

	if (!chosen->reports || chosen->mutex.lock != tek_sync__lock_auto.lock ||
	    tek_sync__process() != TEK_PROCESS_FIRST)
		return;
	tek_sync__lock_auto_counts(&counts);
	if (!counts.to_park && __libc_single_threaded)
		return;
	append_all(&counts);
	for (unsigned int i = 0; tek_sync__lock_auto_changed(i, &lock, &counts); i++)
		append_one(tek_sync__mutex_around(lock), &counts);
}
