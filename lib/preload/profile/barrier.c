/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

TEK_EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	/* The last thread to arrive releases the other ones; each may be the last one. */
	tek_prof__releases(barrier);
	return TEK_WAIT(TEK_PROFILE_BARRIER, barrier, REAL(pthread_barrier_wait)(barrier));
}
