/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/affinity.h"

#include "uthread/carrier.h"
#include "uthread/engine.h"
#include "uthread/worker.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static cpu_set_t allowed;

void tek_ut__affinity_start(void)
{
	CPU_ZERO(&allowed);
	syscall(SYS_sched_getaffinity, 0, sizeof(allowed), &allowed);
}

unsigned int tek_ut__affinity_cpus(void)
{
	int count = CPU_COUNT(&allowed);
	return count > 0 ? (unsigned int)count : 1;
}

/* The CPU with this number among the allowed ones. */
static int cpu_at(unsigned int number)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && number-- == 0)
			return cpu;
	}
	return 0;
}

/* Pins the kernel thread with this number. */
static int set_cpu(pid_t tid, unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return (int)syscall(SYS_sched_setaffinity, tid, sizeof(set), &set);
}

static bool is_at(unsigned int place, const cpu_set_t *cpus)
{
	return place && CPU_COUNT(cpus) == 1 && CPU_ISSET(place - 1, cpus);
}

/* The program has given a bound thread CPUs of its own: bound.h. */
static bool has_own_cpus(const struct tek_carrier *carrier)
{
	cpu_set_t now;

	CPU_ZERO(&now);
	return carrier->dedicated && syscall(SYS_sched_getaffinity, 0, sizeof(now), &now) > 0 &&
	       !is_at(atomic_load(&carrier->place), &now);
}

void tek_ut__affinity_set(struct tek_worker *worker, struct tek_carrier *carrier)
{
	if (!tek_ut__engine.pin || has_own_cpus(carrier))
		return;
	const unsigned int cpu =
		tek_ut__engine.pin_count
			? (unsigned int)
				  tek_ut__engine.pin_cpus[worker->number % tek_ut__engine.pin_count]
			: (unsigned int)cpu_at(worker->number % tek_ut__affinity_cpus());
	atomic_store(&carrier->place, set_cpu(carrier->tid, cpu) == 0 ? cpu + 1 : 0);
}

static struct tek_carrier *carrier_of(pid_t tid)
{
	if (tid == 0 || !tek_ut__engine.pin)
		return tek_ut__engine.pin ? tek_ut__here_carrier() : NULL;
	struct tek_carrier *carrier = atomic_load(&tek_ut__carriers);
	while (carrier && carrier->tid != tid)
		carrier = carrier->all;
	return carrier;
}

/* The CPU + 1 that a kernel thread is pinned to; 0: none. */
static unsigned int place_of(pid_t tid)
{
	const struct tek_carrier *carrier = carrier_of(tid);
	return carrier ? atomic_load(&carrier->place) : 0;
}

/* The same set, in this library's size. */
static cpu_set_t set_of(size_t bytes, const cpu_set_t *cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	memcpy(&set, cpus, bytes < sizeof(set) ? bytes : sizeof(set));
	return set;
}

void tek_ut__affinity_report(pid_t tid, size_t bytes, cpu_set_t *cpus)
{
	const cpu_set_t now = set_of(bytes, cpus);

	if (is_at(place_of(tid), &now))
		memcpy(cpus, &allowed, bytes < sizeof(now) ? bytes : sizeof(now));
}

bool tek_ut__affinity_stays(pid_t tid, size_t bytes, const cpu_set_t *cpus)
{
	const unsigned int place = cpus ? place_of(tid) : 0;

	if (!place)
		return false;
	const cpu_set_t asked = set_of(bytes, cpus);
	return CPU_EQUAL(&asked, &allowed) && set_cpu(tid, place - 1) == 0;
}

bool tek_ut__affinity_step_out(void)
{
	const int before = errno;
	const unsigned int place = place_of(0);
	cpu_set_t now;

	/* Not if the program has set another one since. */
	CPU_ZERO(&now);
	const bool left = place && syscall(SYS_sched_getaffinity, 0, sizeof(now), &now) > 0 &&
			  is_at(place, &now) &&
			  syscall(SYS_sched_setaffinity, 0, sizeof(allowed), &allowed) == 0;
	errno = before;
	return left;
}

void tek_ut__affinity_step_in(void)
{
	const int before = errno;
	const unsigned int place = place_of(0);

	if (place)
		set_cpu(0, place - 1);
	errno = before;
}
