/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_join(): a thread is lifted while a Fast thread waits for its end. */
#include "base/call.h"
#include "base/export.h"
#include "base/real.h"
#include "inherit/waits.h"
#include "life/start.h"

#include <threads.h>

/* Also if the caller is cancelled. */
static void end(void *unused)
{
	(void)unused;
	tek__join_ends();
}

static int join(pthread_t handle, void **result, uintptr_t call)
{
	int error;

	if (!tek__start() || !tek__join_begins(handle, call))
		return tek__real.pthread_join(handle, result);
	pthread_cleanup_push(end, NULL);
	error = tek__real.pthread_join(handle, result);
	pthread_cleanup_pop(1);
	return error;
}

TEK_EXPORT int pthread_join(pthread_t handle, void **result)
{
	return join(handle, result, TEK_CALL);
}

TEK_EXPORT int thrd_join(thrd_t thread, int *result)
{
	void *value;

	if (join(thread, &value, TEK_CALL))
		return thrd_error;
	if (result)
		*result = (int)(intptr_t)value;
	return thrd_success;
}
