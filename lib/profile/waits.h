/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits, recorded one by one in blocks of the file that a thread takes when it needs another one.
 * Waits without room are counted.
 */
#ifndef TEK_PROFILE_WAITS_H
#define TEK_PROFILE_WAITS_H

#include "tek_profile.h"

/* By the thread itself. */
void tek_prof__waits_add(struct tek_profile_thread *thread, const struct tek_profile_wait *wait);

#endif
