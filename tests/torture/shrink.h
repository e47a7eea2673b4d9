/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reduces a list of steps that fails to a small one that fails in the same way. */
#ifndef TEK_TORTURE_SHRINK_H
#define TEK_TORTURE_SHRINK_H

#include "step.h"

/* Whether this list still fails. */
typedef bool still_fails(const struct step_list *list, void *context);

/*
 * Delta debugging: leaves out ever smaller parts of the list as long as the rest fails. Ends early
 * when `is_over` says so; the list fails in any case.
 */
void shrink(struct step_list *list, still_fails *fails, bool (*is_over)(void *), void *context);

#endif
