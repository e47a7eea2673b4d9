/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "task.h"

#include "../response/clock.h"

#include <err.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void be_realtime(int priority)
{
	struct sched_param param = {.sched_priority = priority};
	/* Its children are not real-time by inheritance. */
	if (priority && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		err(EXIT_FAILURE, "cannot become SCHED_FIFO %d", priority);
}

void sched_other(void)
{
	struct sched_param param = {.sched_priority = 0};
	sched_setscheduler(0, SCHED_OTHER, &param);
}

void stay_on(int cpu)
{
	cpu_set_t only;
	CPU_ZERO(&only);
	CPU_SET(cpu < 0 ? 0 : cpu, &only);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(only), &only))
		err(EXIT_FAILURE, "cannot stay on CPU %d", cpu);
}

void lock_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		warn("cannot lock memory");
}

void wait_for_times(uint64_t *from_ns, uint64_t *to_ns)
{
	char line[80];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(EXIT_SUCCESS);
	if (sscanf(line, "%" SCNu64 " %" SCNu64, from_ns, to_ns) != 2 || *to_ns < *from_ns ||
	    *to_ns > clock_ns() + MAX_SECONDS * NS_PER_S)
		errx(2, "expected a line `FROM TO`, at most %d s, on standard input", MAX_SECONDS);
	/* However it hangs, it ends. */
	alarm(2 * MAX_SECONDS);
}

void print_rounds(const struct iteration *iterations, uint64_t count)
{
	printf("{\"turns\":[");
	for (uint64_t i = 0; i < count; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", iterations[i].begin_ns,
		       iterations[i].response_ns);
	printf("]");
}
