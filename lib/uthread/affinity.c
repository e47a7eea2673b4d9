/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/affinity.h"

#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/worker.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static cpu_set_t allowed;

void tek__affinity_start(void)
{
	CPU_ZERO(&allowed);
	syscall(SYS_sched_getaffinity, 0, sizeof(allowed), &allowed);
}

unsigned int tek__affinity_cpus(void)
{
	int count = CPU_COUNT(&allowed);
	return count > 0 ? (unsigned int)count : 1;
}

/* The CPU with this number among those that are allowed. */
static int cpu_at(unsigned int number)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && number-- == 0)
			return cpu;
	}
	return 0;
}

void tek__affinity_set(struct tek_worker *worker, struct tek_carrier *carrier)
{
	cpu_set_t set;

	if (!tek__engine.pin)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu_at(worker->number % tek__affinity_cpus()), &set);
	syscall(SYS_sched_setaffinity, carrier->tid, sizeof(set), &set);
}
