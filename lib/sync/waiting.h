/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a thread waits: it spins, and then sleeps if its kind of lock sleeps.
 *
 * Spinning. A plain spin lock spins for ever, as in the paper (rtos-linux-scalability-2018, 3.1.5).
 * In two cases the holder may need the CPU that spins. So a user-level thread yields to the other
 * threads of its worker. A real-time thread yields to those of its priority, and at last sleeps for
 * moments, so that lower priorities run too (dedup's starvation, 4.5). Many threads poll one word
 * by relaxed loads, and acquire after the expected value is read: under ThreadSanitizer an acquire
 * load locks the word, and a writer may starve.
 *
 * Sleeping. A waiter that is woken individually sleeps in a struct tek_sleeper of its own, which it
 * shows to its waker. A waiter for a change of a word parks there: parking.h.
 *
 * User-level threads wait by the functions of their engine, if the process has one: tek_sync_host.
 */
#ifndef TEK_SYNC_WAITING_H
#define TEK_SYNC_WAITING_H

#include "base/relax.h"
#include "base/sync_host.h"
#include "base/until.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern const struct tek_sync_host *tek_sync__host __attribute__((visibility("hidden")));

static inline bool tek_sync__on_user_level(void)
{
	return __builtin_expect(tek_sync__host != NULL, 0) && tek_sync__host->self() != NULL;
}

/*
 * A seccomp filter may kill the process for the call that queries a thread's policy. From now on
 * all threads count as ordinary ones.
 */
void tek_sync__waiting_is_confined(void);

/* True if the kernel runs the calling kernel thread before all ordinary ones. */
bool tek_sync__is_real_time(void);

/* The wake-up priority of the calling thread; 0: an ordinary thread, as user-level threads are. */
int tek_sync__urgency(void);

/* Spin iterations before a waiter sleeps (--spin). */
extern unsigned int tek_sync__spin_limit __attribute__((visibility("hidden")));

/*
 * Pauses of one spin iteration: about 50 ns, measured when the library is loaded. The length of a
 * pause depends on the processor (25 ns on AMD's Zen 4). Polling a line faster than it travels
 * between caches delays its writer.
 */
extern unsigned int tek_sync__iteration_pauses __attribute__((visibility("hidden")));

static inline void tek_sync__iterate(void)
{
	for (unsigned int i = 0; i < tek_sync__iteration_pauses; i++)
		tek__relax_cpu();
}

/* The state of one spinning thread: zero at first. */
struct tek_spinning {
	unsigned int iterations;
};

/* After so many spin iterations the engine or the kernel's scheduler is queried. */
#define TEK_SPIN_ITERATIONS 128

void tek_sync__spin_long(unsigned int iterations);

/*
 * One spin iteration. No callee keeps *spinning, so it can be in a register: the time of a poll
 * determines how fast a lock is handed over.
 */
static inline void tek_sync__spin(struct tek_spinning *spinning)
{
	tek_sync__iterate();
	if (__builtin_expect(++spinning->iterations % TEK_SPIN_ITERATIONS == 0, 0))
		tek_sync__spin_long(spinning->iterations);
}

/* 0; ETIMEDOUT: the deadline has passed. EINVAL: it is not a valid time. */
int tek_sync__time_is_left(struct tek_until until);

/* The same with a deadline: 0, ETIMEDOUT, EINVAL (detected at the first iteration). */
static inline int tek_sync__spin_until(struct tek_spinning *spinning, struct tek_until until)
{
	int error = 0;

	if (until.at && spinning->iterations % TEK_SPIN_ITERATIONS == 0)
		error = tek_sync__time_is_left(until);
	if (!error)
		tek_sync__spin(spinning);
	return error;
}

/* Yields to the other threads of its worker, or of its CPU. */
void tek_sync__give_way(void);

/* Sleeps for `ns`, less than a second; a user-level thread yields instead. May return early. */
void tek_sync__nap(long ns);

struct tek_sleeper {
	atomic_uint awake; /* read by the waiter; a kernel thread's futex */
	void *thread;      /* NULL: a kernel thread */
};

/* Prepares it for the calling thread to sleep in. */
void tek_sync__sleeper_init(struct tek_sleeper *sleeper);

/*
 * Sleeps until tek_sync__awaken(), which may have come before: 0, ETIMEDOUT, EINVAL. Never returns
 * early.
 */
int tek_sync__sleep(struct tek_sleeper *sleeper, struct tek_until until);

/* Called once. From then on *sleeper may be gone. */
void tek_sync__awaken(struct tek_sleeper *sleeper);

#endif
