/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "mediate/times.h"

#include "base/clock.h"
#include "threads/inversions.h"

unsigned int tek__times_lifted;

static void count_lifted(int change)
{
	__atomic_store_n(&tek__times_lifted, tek__times_lifted + (unsigned int)change,
			 __ATOMIC_SEQ_CST);
}

/* False: nothing changed. */
static bool clock_time(bool runs, uint64_t *since_ns, uint64_t *total_ns, uint32_t *count)
{
	if (runs == (*since_ns != 0))
		return false;
	uint64_t now = tek__now(CLOCK_BOOTTIME);
	if (runs) {
		*since_ns = now;
		++*count;
	} else {
		*total_ns += now - *since_ns;
		*since_ns = 0;
	}
	return true;
}

void tek__times_clock(struct tek_member *member)
{
	unsigned char reasons = member->fast ? member->reasons : 0;
	bool is_lifted = reasons & TEK_WHY_LIFT;

	clock_time(reasons & ~TEK_WHY_LIFT, &member->fast_since_ns, &member->fast_ns,
		   &member->stays);
	const uint64_t before_ns = member->lifted_ns;
	if (!clock_time(is_lifted, &member->lifted_since_ns, &member->lifted_ns, &member->lifts))
		return;
	count_lifted(is_lifted ? +1 : -1);
	if (is_lifted)
		tek__inversions_lift_begins();
	else
		tek__inversions_lift_ends(member->lifted_ns - before_ns);
}
