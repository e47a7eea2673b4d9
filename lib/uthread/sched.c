/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/sched.h"

#include <string.h>

static const struct tek_sched *const all[] = {
	&tek_ut__sched_rr,   &tek_ut__sched_mlfq,  &tek_ut__sched_psjf,
	&tek_ut__sched_fifo, &tek_ut__sched_steal,
};

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
