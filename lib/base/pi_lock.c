/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/pi_lock.h"

#include "base/self.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The identity of the calling thread when it last took, or tried to take, the lock. */
static __thread unsigned int taker __attribute__((tls_model("initial-exec")));

static unsigned int own_tid(void)
{
	return taker = (unsigned int)tek__gettid();
}

/*
 * Taking is an acquire, releasing a release operation on the same word, so what
 * one holder wrote the next one sees.  In the slow path the kernel writes our tid
 * into the word; the acquire load after it pairs with the release of the thread
 * that handed the lock over.
 */
bool tek__pi_lock_try(struct tek_pi_lock *lock)
{
	unsigned int unlocked = 0;
	return __atomic_compare_exchange_n(&lock->word, &unlocked, own_tid(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

__attribute__((cold)) static bool wait_for(struct tek_pi_lock *lock)
{
	static const struct timespec pause = {.tv_nsec = 50000};
	int saved = errno;
	bool taken = false;

	while (!taken &&
	       (__atomic_load_n(&lock->word, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK) != own_tid()) {
		taken = syscall(SYS_futex, &lock->word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0) ==
			0;
		if (taken)
			(void)__atomic_load_n(&lock->word, __ATOMIC_ACQUIRE);
		else if (!(taken = tek__pi_lock_try(lock)))
			/* A system without PI futexes, such as an emulator. */
			nanosleep(&pause, NULL);
	}
	errno = saved;
	return taken;
}

bool tek__pi_lock_take(struct tek_pi_lock *lock)
{
	return tek__pi_lock_try(lock) || wait_for(lock);
}

void tek__pi_lock_release(struct tek_pi_lock *lock)
{
	unsigned int own = own_tid();

	if (__atomic_compare_exchange_n(&lock->word, &own, 0, false, __ATOMIC_RELEASE,
					__ATOMIC_RELAXED))
		return;
	/* A thread waits: the kernel hands the lock over, after this release. */
	int saved = errno;
	__atomic_fetch_or(&lock->word, 0, __ATOMIC_RELEASE);
	syscall(SYS_futex, &lock->word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0);
	errno = saved;
}

bool tek__pi_lock_is_held(const struct tek_pi_lock *lock)
{
	unsigned int word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
	return word && (word & FUTEX_TID_MASK) == taker;
}
