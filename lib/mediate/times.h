/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The times that threads spend in the Fast Region: stays of their own, and lifts (lift.h), which
 * are no stays.
 */
#ifndef TEK_MEDIATE_TIMES_H
#define TEK_MEDIATE_TIMES_H

#include "threads/member.h"

/* The number of lifted threads. Written with the lock (threads/process.h). */
extern unsigned int tek__times_lifted;

/*
 * Begins or ends the times that follow from `fast` and the reasons; to be called after either has
 * changed. Needs the lock.
 */
void tek__times_clock(struct tek_member *member);

#endif
