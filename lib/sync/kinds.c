/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/lock.h"
#include "sync/spin.h"

#include <string.h>

#define KIND(kind, name, about) &tek_sync__lock_##kind,
const struct tek_lock_kind *const tek_sync__lock_kinds[] = {TEK_LOCK_KINDS(KIND) NULL};

#define ABOUT(kind, name, about) about,
const char *tek_sync__lock_kind_about(unsigned int number)
{
	static const char *const about[] = {TEK_LOCK_KINDS(ABOUT)};
	return number < sizeof(about) / sizeof(about[0]) ? about[number] : NULL;
}

const struct tek_spin_kind *const tek_sync__spin_kinds[] = {
	&tek_sync__spin_tas,
	&tek_sync__spin_tatas,
	&tek_sync__spin_ticket,
	NULL,
};

const struct tek_lock_kind *tek_sync__lock_kind_named(const char *name)
{
	for (const struct tek_lock_kind *const *kind = tek_sync__lock_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}

const struct tek_spin_kind *tek_sync__spin_kind_for(const char *name)
{
	const struct tek_lock_kind *lock = tek_sync__lock_kind_named(name);

	for (const struct tek_spin_kind *const *kind = tek_sync__spin_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	/*
	 * A kind that sleeps elsewhere spins here, and not in a queue of threads that may be
	 * preempted.
	 */
	return !lock ? NULL : lock->fifo ? &tek_sync__spin_ticket : &tek_sync__spin_tatas;
}
