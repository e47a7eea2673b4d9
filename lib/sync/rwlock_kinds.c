/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/rwlock.h"

#include <string.h>

const struct tek_rwlock_kind *const tek_sync__rwlock_kinds[] = {
	&tek_sync__rwlock_park,
	&tek_sync__rwlock_pf,
	NULL,
};

const struct tek_rwlock_kind *tek_sync__rwlock_kind_named(const char *name)
{
	for (const struct tek_rwlock_kind *const *kind = tek_sync__rwlock_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}
