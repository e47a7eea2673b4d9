/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pin.h"

#include <err.h>
#include <stdlib.h>

void pin_to_last_cpu(cpu_set_t *before)
{
	cpu_set_t allowed, one;
	int cpu = CPU_SETSIZE - 1;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		err(EXIT_FAILURE, "sched_getaffinity");
	while (cpu > 0 && !CPU_ISSET(cpu, &allowed))
		cpu--;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		err(EXIT_FAILURE, "cannot pin a thread to CPU %d", cpu);
	if (before)
		*before = allowed;
}
