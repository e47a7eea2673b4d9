/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program's action for SIGSEGV, and TEK's in its place.
 *
 * After tek__action_watch() the kernel has a handler of TEK's, while the program still reads and
 * sets its own action. The kernel's handler identifies that action: each action of the program has
 * its own entry, a handler of TEK's that differs from the other ones only in its number. So both
 * stay consistent, in the child of vfork() too. An action that a raw system call sets past TEK
 * simply applies.
 *
 * All functions are async-signal-safe and need no lock.
 */
#ifndef TEK_STACK_ACTION_H
#define TEK_STACK_ACTION_H

#include <signal.h>
#include <stdbool.h>

/* Have TEK's handler in place, also if the program's own was put back meanwhile. */
void tek__action_watch(void);

/* Whether sigaction(SIGSEGV) has to go through the next function. */
bool tek__action_is_watched(void);

/* As sigaction(SIGSEGV, act, old). */
int tek__action_change(const struct sigaction *act, struct sigaction *old);

/*
 * After signal(SIGSEGV, ...) or one of its likes, which has put the program's handler into the
 * kernel: take that over.  Returns what the program is to see of `old`, which the call returned.
 */
sighandler_t tek__action_adopt(sighandler_t old);

#endif
