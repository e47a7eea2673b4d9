/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `tek run --place`: each thread of the program stays on one CPU of a list, dealt to it in turn
 * when it is created, and with `rtfifo` all are SCHED_FIFO of one priority
 * (rtos-linux-scalability-2018, 3.1.3).
 *
 * Life of a place
 * ---------------
 *   tek__place_main()    the first thread's, before the program begins
 *   tek__place_deal()    by the creator, before the thread exists
 *   tek__place_settle()  by the creator or by the thread itself, whichever comes first
 *   tek__place_begun()   by the thread itself
 *   tek__place_again()   in the child of a fork: a place of its own
 *
 * The program's settings take precedence: a thread with an affinity in its attributes is left
 * alone, and so is a thread of a creator that is no longer where TEK put it. So is, by itself, the
 * policy of one with a policy in its attributes, or of a creator with another policy than TEK gave
 * it. The treatment of programs that set affinities is in place/affinity.h.
 *
 * Processes that a thread starts begin with the affinity that this process was started with, and,
 * because of the flag reset-on-fork, without a real-time policy. If TEK is loaded there, it deals
 * places there too.
 */
#ifndef TEK_PLACE_PLACE_H
#define TEK_PLACE_PLACE_H

#include "place/config.h"
#include "place/mask.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tek_birth;
struct tek_thread;

/* The CPUs of the process before TEK placed its first thread. Constant once it has started. */
extern struct tek_mask tek__place_allowed;

/* At the start, after tek__place_config_read(): which CPUs this process may use. */
void tek__place_start(void);

/* In the thread that loads the library. Takes the lock. */
void tek__place_main(void);

/*
 * The place of a thread that the calling one is about to create, into thread->birth.  Needs the
 * lock; only if tek__place_is_on().
 */
void tek__place_deal(struct tek_thread *thread, const pthread_attr_t *attr);

/* Put it there, once its tid is known, and once only. Needs the lock. */
void tek__place_settle(struct tek_thread *thread);

/* In the thread itself, settled: its stack comes to where it runs. Needs no lock. */
void tek__place_begun(const struct tek_birth *birth);

/* The calling thread's CPU + 1; 0: it has none, or the program moved it. Needs no lock. */
unsigned short tek__place_own(void);

/* In fork(), in the forking thread; and in the child, which takes the lock. */
void tek__place_before_fork(void);
void tek__place_again(void);

/* One of TEK's own threads: anywhere. */
void tek__place_leave(void);

/*
 * TEK stands down: threads that are where TEK put them may run everywhere, and those that it made
 * SCHED_FIFO are SCHED_OTHER.  Without CAP_SYS_NICE they keep the flag reset-on-fork.  Needs the
 * lock.
 */
void tek__place_withdraw(void);

/*
 * The process may not set affinities any more, in a moment: the same, and no thread is placed from
 * now on. Reported once. Needs the lock.
 */
void tek__place_end_refused(void);

/*
 * Around exec and spawn.  step_out(): a thread that is where TEK put it may run everywhere until
 * step_in().  True: the caller must call step_in().  end(): between the two, before an exec that
 * will probably succeed.  The thread gives up its policy and its number (place/number.h), which the
 * next program takes.
 */
bool tek__place_step_out(void);
void tek__place_end(void);
void tek__place_step_in(void);

#endif
