/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How TEK continues after a fork: the work of the parent before it, and of the child after it.
 */
#ifndef TEK_LIFE_FORK_H
#define TEK_LIFE_FORK_H

/* At the start: registers for fork(3). */
void tek__fork_start(void);

/*
 * In a child of any kind of fork that TEK meets for the first time: it begins anew, without the
 * parent's threads, table and helpers.  By tek__hooks.
 */
void tek__fork_begin_again(void);

#endif
