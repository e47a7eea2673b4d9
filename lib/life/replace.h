/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The actions of TEK around exec and spawn.
 *
 * exec and spawn: a thread that was placed on a CPU (place/place.h) may run everywhere meanwhile,
 * and so may the program;
 *        exec takes a policy that TEK gave it away too, if it is to run.
 * exec:  a Fast thread that becomes another program stops being Fast, because
 *        that program has not asked; if exec fails it is Fast again.
 * spawn: the child must begin with the policy and nice value that its parent had
 *        before it was Fast; the parent steps out of the Fast Region for as long as
 *        the C library's spawn takes (the parent waits in it anyway).
 * both:  a program in which TEK cannot ride is named, once, and where libtek.so
 *        would disturb it, it is taken out of LD_PRELOAD; for one of another word
 *        size its sibling takes its place, if there is one.
 */
#ifndef TEK_LIFE_REPLACE_H
#define TEK_LIFE_REPLACE_H

#include "exec/target.h"

#include <stdbool.h>

/* Step out before exec or spawn; true if tek__exec_step_in() must follow when it is over. */
bool tek__exec_step_out(void);
void tek__exec_step_in(void);

/* Before vfork() and its kind: notes whether the calling thread is Fast, for the child's exec. */
void tek__exec_lends(void);

/* The program will take the place of this one, which ends its table; or it did not, after all. */
void tek__exec_hide_table(void);
void tek__exec_show_table(void);

/* Name a program in which TEK cannot ride. */
void tek__exec_name(const char *path, struct tek_verdict verdict);

/*
 * The same for one that has `other` in the place of this library, if the other libraries in
 * LD_PRELOAD have nothing for it.
 */
void tek__exec_name_lacking(const char *path, char *const environment[], const char *other);

#endif
