/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rules: settings of the program's threads by the user who runs it. They come in the variable
 * TEK_RULES (libtek(7)), which `tek run` writes from rules files (tek-rules(5)), are read once at
 * the start and never change.
 *
 * They are applied to a thread when it begins or is adopted, when its name is set (past TEK, too:
 * life/names.h), and when its program sets its role.  All are tried in order; for each setting the
 * last matching rule that has it wins.  TEK_CRITICAL comes after them.  A role, a
 * budget, and being Fast last as long as a rule gives them at these moments; a group
 * and a mark are set then, as the program itself could, and stay.
 */
#ifndef TEK_MEDIATE_RULES_H
#define TEK_MEDIATE_RULES_H

#include "threads/thread.h"

/* At the start. Needs no lock. */
void tek__rules_read(void);

/* Whether there is anything to do, TEK_CRITICAL included. Constant from the start on. */
extern bool tek__rules_any;

/* Whether any of it asks for the names of threads. Constant from the start on. */
extern bool tek__rules_by_name;

/* Do to a thread what the rules say. Needs the lock. Costs nothing where there are none. */
void tek__rules_apply(struct tek_thread *thread);

/*
 * The rules with a function pattern that matches the function at this address: a bit for each, 1 <<
 * index. Takes the lock; must be called without it, because it may read a file.
 */
uint64_t tek__rules_of_function(uintptr_t function);

/* The program begins: exec has named the first thread. Takes the lock. */
void tek__rules_main_thread(void);

#endif
