/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/lock.h"
#include "sync/spin.h"

#include <string.h>

const struct tek_lock_kind *const tek_sync__lock_kinds[] = {
	&tek_sync__lock_tas,       &tek_sync__lock_tatas, &tek_sync__lock_ticket,
	&tek_sync__lock_ticket_pb, &tek_sync__lock_k42,   &tek_sync__lock_mcs,
	&tek_sync__lock_tp,        &tek_sync__lock_park,  &tek_sync__lock_futex,
	&tek_sync__lock_pi,        &tek_sync__lock_auto,  NULL,
};

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
