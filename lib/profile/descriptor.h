/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kind of sleep of calls for a descriptor. A thread that reads from a pipe waits for another
 * one, and does nothing meanwhile; one that reads a regular file has its data copied. The type of a
 * descriptor is queried once.
 */
#ifndef TEK_PROFILE_DESCRIPTOR_H
#define TEK_PROFILE_DESCRIPTOR_H

#include "tek_abi.h"

/*
 * The part (TEK_PROFILE_*) in which calls for it wait: files for pipes, sockets and terminals, idle
 * for timers and events; 0: they do not wait, or it is none.  Keeps errno.
 */
tek_u32 tek_prof__descriptor(int fd);

/* It is closed, or about to be another one. */
void tek_prof__descriptor_forget(int fd);

/* All from `first` to `last`. */
void tek_prof__descriptors_forget(unsigned int first, unsigned int last);

#endif
