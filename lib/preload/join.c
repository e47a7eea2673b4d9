/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_join(): a thread is lifted while a Fast thread waits for its end. */
#include "base/export.h"
#include "base/real.h"
#include "inherit/waits.h"
#include "life/start.h"

TEK_EXPORT int pthread_join(pthread_t handle, void **result)
{
	bool waits = tek__start() && tek__join_begins(handle);
	int error = tek__real.pthread_join(handle, result);

	if (waits)
		tek__join_ends();
	return error;
}
