/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/lock.h"
#include "sync/spin.h"

#include <string.h>

const struct tek_lock_kind *const tek__lock_kinds[] = {
	&tek__lock_tas,   &tek__lock_tatas, &tek__lock_ticket, &tek__lock_ticket_pb,
	&tek__lock_k42,   &tek__lock_mcs,   &tek__lock_tp,     &tek__lock_park,
	&tek__lock_futex, &tek__lock_pi,    &tek__lock_auto,   NULL,
};

const struct tek_spin_kind *const tek__spin_kinds[] = {
	&tek__spin_tas,
	&tek__spin_tatas,
	&tek__spin_ticket,
	NULL,
};

const struct tek_lock_kind *tek__lock_kind_named(const char *name)
{
	for (const struct tek_lock_kind *const *kind = tek__lock_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}

const struct tek_spin_kind *tek__spin_kind_for(const char *name)
{
	const struct tek_lock_kind *lock = tek__lock_kind_named(name);

	for (const struct tek_spin_kind *const *kind = tek__spin_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	/*
	 * A kind that sleeps elsewhere spins here, and not in a queue of threads that may be
	 * preempted.
	 */
	return !lock ? NULL : lock->fifo ? &tek__spin_ticket : &tek__spin_tatas;
}
