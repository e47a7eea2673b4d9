/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/crowd.h"

#include "base/wants_cpus.h"
#include "place/config.h"
#include "place/place.h"
#include "threads/report.h"
#include "threads/thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* There is one where libtek-sync.so is. */
#pragma weak tek_sync__wants_cpus

/* How many CPUs the threads of this process have between them. */
static unsigned int usable_cpus(void)
{
	struct tek_mask mask;
	unsigned int cpus = 0;

	if (tek__place_is_on())
		return tek__place_config.count;
	if (!tek__mask_get(0, &mask))
		return 0;
	for (size_t i = 0; i < sizeof(mask.words) / sizeof(mask.words[0]); i++)
		cpus += (unsigned int)__builtin_popcountl(mask.words[i]);
	return cpus;
}

void tek__crowd_check(void)
{
	static bool settled;
	static unsigned int cpus; /* 0: not known yet */
	const char *option, *kind;

	if (settled || !tek_sync__wants_cpus)
		return;
	if (!cpus)
		cpus = usable_cpus();
	/* The first thread waits for the other ones in most programs. */
	const unsigned int threads = tek__threads_living() - 1;
	if (cpus && threads <= cpus)
		return;
	settled = true;
	option = tek_sync__wants_cpus(&kind);
	if (!option || !cpus)
		return;
	/* There is no such kind of read-write locks. */
	const char *cure = strcmp(option, "--rwlock") == 0 ? "park" : "auto";
	tek__report_crowd(option, kind, cure, threads, cpus);
}
