/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "batch.h"

#include "../response/clock.h"

double batch_ns(batch_fn *call, uint64_t times)
{
	uint64_t begin = clock_ns();
	call(times);
	return (double)(clock_ns() - begin) / (double)times;
}

uint64_t batch_size(batch_fn *call)
{
	uint64_t times = 1;
	double ns;

	/* Long enough that the clock's own time does not count. */
	while ((ns = batch_ns(call, times)) * (double)times < (double)NS_PER_MS / 4)
		times *= 2;
	uint64_t wanted = (uint64_t)((double)NS_PER_MS / ns);
	return wanted ? wanted : 1;
}
