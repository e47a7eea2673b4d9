/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/rwlock.h"

#include <string.h>

#define KIND(kind, name, about) &tek_sync__rwlock_##kind,
const struct tek_rwlock_kind *const tek_sync__rwlock_kinds[] = {TEK_RWLOCK_KINDS(KIND) NULL};

const struct tek_rwlock_kind *tek_sync__rwlock_kind_named(const char *name)
{
	for (const struct tek_rwlock_kind *const *kind = tek_sync__rwlock_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}
