/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sync/barrier.h"

#include <string.h>

const struct tek_barrier_kind *const tek__barrier_kinds[] = {
	&tek__barrier_block,         &tek__barrier_auto,  &tek__barrier_central,
	&tek__barrier_dissemination, &tek__barrier_mutex, NULL,
};

const struct tek_barrier_kind *tek__barrier_kind_named(const char *name)
{
	for (const struct tek_barrier_kind *const *kind = tek__barrier_kinds; *kind; kind++)
		if (strcmp((*kind)->name, name) == 0)
			return *kind;
	return NULL;
}
