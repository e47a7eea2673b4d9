/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "batch.h"

#include "../response/clock.h"

double batch_ns(batch_fn *call, uint64_t times)
{
	uint64_t begin = clock_ns();
	call(times);
	return (double)(clock_ns() - begin) / (double)times;
}

/* The fastest of a few is one that was not interrupted. */
static double fastest_ns(batch_fn *call, uint64_t times)
{
	double fastest = batch_ns(call, times);
	for (int i = 0; i < 4; i++) {
		double ns = batch_ns(call, times);
		fastest = ns < fastest ? ns : fastest;
	}
	return fastest;
}

uint64_t batch_size(batch_fn *call)
{
	uint64_t times = 1;
	double ns;

	/* Long enough that neither the clock's own time nor cold memory counts. */
	while ((ns = fastest_ns(call, times)) * (double)times < (double)NS_PER_MS / 4)
		times *= 2;
	uint64_t wanted = (uint64_t)((double)NS_PER_MS / ns);
	return wanted ? wanted : 1;
}
