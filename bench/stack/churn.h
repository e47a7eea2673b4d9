/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Days in which threads come, one after the other until all have come (tek-2020, Fig. 11 (a)),
 * and from then on go and come again by a fixed plan.
 */
#ifndef STACK_CHURN_H
#define STACK_CHURN_H

#include "worker.h"

/* Simulates so many days and prints a JSON array with an entry for each; none lives afterwards. */
void churn(struct worker *workers, unsigned int days, unsigned int hour_us);

#endif
