/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program's action for SIGSEGV, and TEK's in its place.
 *
 * Once tek__action_watch() was called the kernel has a handler of TEK's, and the program goes on
 * to see, set and get back its own action.  Which one that is the kernel knows too: each action
 * that the program had has its own entry, a handler of TEK's that differs from the others only in
 * its number.  So nothing can get out of step, in the child of vfork() neither, and what is set
 * past TEK, by a raw system call, simply counts.
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
