/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/export.h"
#include "preload/profile/call.h"

#include <errno.h>

TEK_EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	TEK_LOCK(TEK_PROFILE_SPIN, (const void *)lock, REAL(pthread_spin_trylock)(lock),
		 REAL(pthread_spin_lock)(lock));
}

TEK_EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock)
{
	TEK_TRY(TEK_PROFILE_SPIN, (const void *)lock, REAL(pthread_spin_trylock)(lock));
}

TEK_EXPORT int pthread_spin_unlock(pthread_spinlock_t *lock)
{
	TEK_UNLOCK((const void *)lock, REAL(pthread_spin_unlock)(lock));
}
