/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/sched.h"

#include <string.h>

#define SCHED(name, text, about) &tek_ut__sched_##name,
static const struct tek_sched *const all[] = {TEK_SCHEDULERS(SCHED)};

const struct tek_sched *tek_ut__sched_at(unsigned int number)
{
	return number < sizeof(all) / sizeof(all[0]) ? all[number] : NULL;
}

const struct tek_sched *tek_ut__sched_find(const char *name)
{
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i]->name, name) == 0)
			return all[i];
	}
	return NULL;
}
