/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "life/confine.h"

#include "inherit/mutex.h"
#include "mediate/region.h"
#include "place/place.h"
#include "threads/process.h"
#include "threads/report.h"

void tek__confine_places(void)
{
	if (!tek__lock())
		return;
	tek__place_end_refused();
	tek__unlock();
}

void tek__confine(const char *call)
{
	tek__inherit_end();
	if (!tek__lock()) {
		tek__process_confine();
		return;
	}
	tek__region_end();
	tek__place_withdraw();
	tek__report_confined(call);
	/* Before the lock is free: a thread that waits for it checks again. */
	tek__process_confine();
	tek__unlock();
}
