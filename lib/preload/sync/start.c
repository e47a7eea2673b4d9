/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/sync/start.h"

#include "base/channel.h"
#include "base/export.h"
#include "base/line.h"
#include "base/wants_cpus.h"
#include "preload/sync/objects.h"
#include "preload/sync/variable.h"
#include "sync/forked.h"
#include "sync/waiting.h"
#include "tek_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tek_sync_chosen tek_sync__chosen;

/*
 * Of libtek-uthread.so, if that is in the process.  Found by the loader, for dlsym() may allocate,
 * and allocators lock.
 */
extern const struct tek_sync_host tek_sync_host __attribute__((weak));

static void report(const char *first, const char *name, const char *last)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek: ");
	tek__line_add(&line, first);
	tek__line_add(&line, name);
	tek__line_add(&line, last);
	line.text[line.length++] = '\n';
	tek__channel_report(line.text, line.length);
}

void tek_sync__left(bool *reported, const char *what)
{
	if (!__atomic_exchange_n(reported, true, __ATOMIC_RELAXED))
		report("", what, " of this program stay those of the C library");
}

/*
 * Whether our objects fit into the memory of the C library's.  Where they do not, it reports that
 * the program keeps the C library's objects.
 */
static bool fit(bool they_do, const char *what)
{
	if (!they_do)
		report("this C library's ", what,
		       " are not as any that TEK knows: they stay those of the C library");
	return they_do;
}

static bool choose_lock(const char *name)
{
	const struct tek_lock_kind *kind = tek_sync__lock_kind_named(name);
	const struct tek_objects *objects = tek_sync__objects();

	if (!kind)
		return false;
	/* A condition variable unlocks a mutex: both are ours, or none. */
	if (!fit(objects->mutexes && objects->cond_shared.bit, "mutexes and condition variables"))
		return true;
	/* The engine's own mutex is that already. */
	if (tek_sync__host && kind == &tek_sync__lock_futex)
		return true;
	tek_sync__chosen.mutex = *kind;
	/* User-level threads have priorities that only their engine knows. */
	tek_sync__chosen.inherit = kind->sleeps && !tek_sync__host ? &tek_sync__lock_pi : NULL;
	tek_sync__chosen.spin = tek_sync__spin_kind_for(name);
	return true;
}

static bool choose_rwlock(const char *name)
{
	const struct tek_rwlock_kind *kind = tek_sync__rwlock_kind_named(name);

	if (kind && fit(tek_sync__objects()->rwlocks && tek_sync__objects()->rwlock_shared.bit,
			"read-write locks"))
		tek_sync__chosen.rwlock = *kind;
	return kind != NULL;
}

static bool choose_barrier(const char *name)
{
	const struct tek_barrier_kind *kind = tek_sync__barrier_kind_named(name);

	if (kind && fit(tek_sync__objects()->barrier_shared.bit, "barriers"))
		tek_sync__chosen.barrier = *kind;
	return kind != NULL;
}

static bool choose_spins(const char *number)
{
	char *end;
	unsigned long spins = strtoul(number, &end, 10);

	if (*number < '0' || *number > '9' || *end || spins > TEK_MOST_SPINS)
		return false;
	tek_sync__spin_limit = (unsigned int)spins;
	return true;
}

static bool choose_report(const char *value)
{
	tek_sync__chosen.reports = strcmp(value, "1") == 0;
	return tek_sync__chosen.reports;
}

static const struct {
	const char *name;
	bool (*choose)(const char *value);
} settings[] = {
	{"lock", choose_lock},  {"rwlock", choose_rwlock}, {"barrier", choose_barrier},
	{"spin", choose_spins}, {"report", choose_report},
};

/* Of one setting, "name=value". */
static bool choose(char *setting)
{
	char *value = strchr(setting, '=');

	if (!value)
		return false;
	*value = '\0';
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strcmp(settings[i].name, setting) == 0 && settings[i].choose(value + 1))
			return true;
	*value = '=';
	return false;
}

void tek_sync__choose(char *list)
{
	char *setting;

	while ((setting = strsep(&list, ",")))
		if (*setting && !choose(setting))
			report("TEK_SYNC: ", setting, " is not known: it is ignored");
}

/* Nothing here allocates or locks: an allocator's first lock may have brought us here. */
void tek_sync__start(void)
{
	char list[256];

	if (tek_sync__chosen.started)
		return;
	tek__channel_start();
	tek_sync__process_start();
	tek_sync__host = &tek_sync_host;
	if (!tek_sync__variable("TEK_SYNC", list, sizeof(list)))
		report("TEK_SYNC is too long: ", "", "it is ignored");
	tek_sync__choose(list);
	tek_sync__chosen.started = true;
}

TEK_EXPORT const char *tek_sync__wants_cpus(const char **kind)
{
	const struct tek_sync_chosen *chosen = tek_sync__sync();

	if (chosen->mutex.lock && chosen->mutex.fifo && !chosen->mutex.sleeps) {
		*kind = chosen->mutex.name;
		return "--lock";
	}
	if (chosen->rwlock.name && !chosen->rwlock.sleeps) {
		*kind = chosen->rwlock.name;
		return "--rwlock";
	}
	if (chosen->barrier.name && !chosen->barrier.sleeps) {
		*kind = chosen->barrier.name;
		return "--barrier";
	}
	return NULL;
}

/* By libtek.so, before the program installs a seccomp filter: preload/sandbox.c. */
TEK_EXPORT void tek_sync_is_confined(void);
void tek_sync_is_confined(void)
{
	tek_sync__waiting_is_confined();
	tek_sync__chosen.reports = false; /* into a file, which has to be opened */
}

__attribute__((constructor)) static void start(void)
{
	tek_sync__start();
}
