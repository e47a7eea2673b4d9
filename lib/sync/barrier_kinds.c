/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/barrier.h"

#include <string.h>

#define KIND(kind, name, about) &tek_sync__barrier_##kind,
const struct tek_barrier_kind *const tek_sync__barrier_kinds[] = {TEK_BARRIER_KINDS(KIND) NULL};

const struct tek_barrier_kind *tek_sync__barrier_kind_named(const char *name)
{
	for (const struct tek_barrier_kind *const *kind = tek_sync__barrier_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}
