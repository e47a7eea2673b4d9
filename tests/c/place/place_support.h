/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that report their CPU, and a process with TEK_PLACE. Each test is a new process. */
#ifndef TESTS_PLACE_SUPPORT_H
#define TESTS_PLACE_SUPPORT_H

#include "vectors.h"

#include "place/config.h"
#include "place/mask.h"
#include "place/place.h"

static struct tek_mask allowed;
static unsigned int cpus[2]; /* the first two that may be used */

/*
 * The only CPU of the calling thread, from the kernel, past each interposed symbol; -1: it has
 * several.
 */
static inline int only_cpu(void)
{
	struct tek_mask mask;

	if (!tek__mask_get(0, &mask))
		return -1;
	for (unsigned int cpu = 0; cpu < TEK_MASK_BITS; cpu++) {
		const struct tek_mask one = tek__mask_of(cpu);
		if (tek__mask_has(&mask, cpu))
			return tek__mask_equal(&mask, &one) ? (int)cpu : -1;
	}
	return -1;
}

static inline void *report_cpu(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)only_cpu();
}

/* Returns the value that a new thread reports of itself. */
static inline int reported_by(void *(*report)(void *), const pthread_attr_t *attr)
{
	pthread_t thread;
	void *reported;

	if (pthread_create(&thread, attr, report, NULL) || pthread_join(thread, &reported))
		return -2;
	return (int)(intptr_t)reported;
}

/* As with TEK_PLACE of these two CPUs, from the start. */
static inline void begin(const char *more)
{
	char text[64];

	snprintf(text, sizeof(text), "%scpus=%u:%u", more, cpus[0], cpus[1]);
	setenv("TEK_PLACE", text, 1);
	tek__place_start();
	tek__place_main();
}

static inline bool have_two_cpus(void)
{
	unsigned int found = 0;

	tek__mask_get(0, &allowed);
	for (unsigned int cpu = 0; cpu < TEK_PLACE_MOST_CPUS && found < 2; cpu++) {
		if (tek__mask_has(&allowed, cpu))
			cpus[found++] = cpu;
	}
	return found == 2;
}

static inline void need_two_cpus(void)
{
	if (!have_two_cpus()) {
		print_message("# needs two CPUs\n");
		skip();
	}
}

static inline int try_fifo(void)
{
	const struct sched_param param = {.sched_priority = 3};
	return syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &param) != 0;
}

/* In a child, so that this process has neither a guard nor the policy. */
static inline void need_fifo(void)
{
	need_two_cpus();
	if (in_child(try_fifo)) {
		print_message("# needs CAP_SYS_NICE or RLIMIT_RTPRIO\n");
		skip();
	}
}

#endif
