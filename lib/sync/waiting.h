/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a thread waits: it spins, and where its kind of lock has it so, sleeps then.
 *
 * Spinning.  A plain spin lock spins for ever, as the paper's do (rtos-linux-scalability-2018, 3.1.5).  There are two
 * cases in which that would be for ever indeed, because the holder may wait for the CPU that spins: a user-level thread
 * lets others of its worker run, and a thread under a real-time policy lets those of its priority run, and at last
 * sleeps for moments, so that those of lesser priority run too (dedup's starvation, 4.5).  Where many look at one word they
 * do so by relaxed loads, and acquire what they wait for once they have seen it: under ThreadSanitizer an acquire is a lock
 * of the word, and who wants to write it may never get that.
 *
 * Sleeping.  Who is to be woken by name sleeps in a struct tek_sleeper of its own, which it shows to whoever is to wake
 * it; who waits for a word to change parks there: parking.h.
 *
 * What user-level threads do comes from their engine, if there is one in the process: tek_sync_host.
 */
#ifndef TEK_SYNC_WAITING_H
#define TEK_SYNC_WAITING_H

#include "sync/until.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * What an engine of user-level threads does for those who run on it.  libtek-uthread.so has one, which libtek-sync.so
 * finds by its name when it is loaded.
 */
struct tek_sync_host {
	/* The calling user-level thread; NULL: a kernel thread, for which nothing of this is to be called. */
	void *(*self)(void);
	/* Lets others of its worker run. */
	void (*yield)(void);
	/*
	 * Waits for unpark(), which may have come before, until that time: 0, ETIMEDOUT, EINVAL.  May return early.
	 * Signals are handled meanwhile; it is not cancelled.
	 */
	int (*park)(struct tek_until until);
	/* By any thread; that one exists until it has returned. */
	void (*unpark)(void *thread);
};

extern const struct tek_sync_host *tek__sync_host __attribute__((visibility("hidden")));

static inline bool tek__on_user_level(void)
{
	return __builtin_expect(tek__sync_host != NULL, 0) && tek__sync_host->self() != NULL;
}

/*
 * A seccomp filter may kill for the call by which a thread is asked for its policy: from now on all
 * count as ordinary ones.
 */
void tek__waiting_is_confined(void);

/* Whether the kernel runs the calling kernel thread before all ordinary ones. */
bool tek__is_real_time(void);

/* In which order the kernel would wake the calling thread among others: 0: an ordinary one, as user-level threads are. */
int tek__urgency(void);

/* How often who would sleep looks before (--spin). */
extern unsigned int tek__spin_limit __attribute__((visibility("hidden")));

static inline void tek__relax_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/*
 * So many of these are a turn: of about 50 ns, measured when the library is loaded.  How long a pause takes differs by the
 * processor (25 ns on AMD's Zen 4).  Who looks at a line more often than it can go from cache to cache makes whoever writes
 * there wait for it.
 */
extern unsigned int tek__turn_pauses __attribute__((visibility("hidden")));

static inline void tek__turn(void)
{
	for (unsigned int i = 0; i < tek__turn_pauses; i++)
		tek__relax_cpu();
}

/* One who spins: zero at first. */
struct tek_spinning {
	unsigned int turns;
};

/* So many turns, then who carries the thread is asked: an engine, or the kernel's scheduler. */
#define TEK_TURNS 128

void tek__spin_long(unsigned int turns);

/* One turn.  Nobody keeps *spinning, so it can be in a register: what a look takes decides how fast a lock is handed over. */
static inline void tek__spin(struct tek_spinning *spinning)
{
	tek__turn();
	if (__builtin_expect(++spinning->turns % TEK_TURNS == 0, 0))
		tek__spin_long(spinning->turns);
}

/* ETIMEDOUT: that time has come.  EINVAL: it is none. */
int tek__time_is_left(struct tek_until until);

/* The same for who waits until then at most: 0, ETIMEDOUT, EINVAL (found out at the first turn). */
static inline int tek__spin_until(struct tek_spinning *spinning, struct tek_until until)
{
	int error = 0;

	if (until.at && spinning->turns % TEK_TURNS == 0)
		error = tek__time_is_left(until);
	if (!error)
		tek__spin(spinning);
	return error;
}

/* Others may run now: of its worker, or of its CPU. */
void tek__give_way(void);

/* Sleeps for so many ns, of less than a second; a user-level thread lets others run instead.  May return early. */
void tek__nap(long ns);

struct tek_sleeper {
	atomic_uint awake; /* for the one who waits; a kernel thread's futex */
	void *thread;      /* NULL: a kernel thread */
};

/* The calling thread will sleep in it. */
void tek__sleeper_init(struct tek_sleeper *sleeper);

/* Until tek__awaken(), which may have come before: 0, ETIMEDOUT, EINVAL.  Never early. */
int tek__sleep(struct tek_sleeper *sleeper, struct tek_until until);

/* Once.  From then on *sleeper may be gone. */
void tek__awaken(struct tek_sleeper *sleeper);

#endif
