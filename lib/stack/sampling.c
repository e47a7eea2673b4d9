/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/sampling.h"

#include "threads/process.h"

enum {
	SETTLED_THREADS = 16,
	SETTLED_SINCE = 8,
	SAMPLE = 16, /* once settled, one in so many threads is measured, and more of the first */
};

struct tek_sampling tek__sampling_of(uint64_t threads, uint64_t runs)
{
	const bool settled = threads >= SETTLED_THREADS;

	return (struct tek_sampling){
		.measured = settled ? SETTLED_THREADS : (unsigned int)threads,
		.since_higher = settled ? SETTLED_SINCE : 0,
		.phase = (unsigned int)(runs % SAMPLE),
	};
}

/*
 * One of the first thread of a process, of the next 2, the next 4, the next 8, and then of each 16.
 * The chosen one differs between runs: in so many runs each of them is measured.
 */
static bool is_sampled(const struct tek_sampling *sampling)
{
	unsigned int among = SAMPLE;

	while (among > sampling->created)
		among /= 2;
	return sampling->created % among == sampling->phase % among;
}

bool tek__sampling_wants(struct tek_sampling *sampling)
{
	sampling->created++;
	return sampling->measured < SETTLED_THREADS || sampling->since_higher < SETTLED_SINCE ||
	       is_sampled(sampling);
}

void tek__sampling_note(struct tek_sampling *sampling, bool first_time, bool is_higher)
{
	sampling->measured += first_time && sampling->measured < SETTLED_THREADS;
	sampling->since_higher += first_time && sampling->since_higher < SETTLED_SINCE;
	if (is_higher)
		sampling->since_higher = 0;
}

void tek__sampling_forget(struct tek_sampling *sampling)
{
	sampling->created = 0;
	/* Of many children each has another one. */
	sampling->phase = (unsigned int)tek__pid() % SAMPLE;
}
