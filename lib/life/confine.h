/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that confines itself: a seccomp filter that would kill it for a system call of TEK. */
#ifndef TEK_LIFE_CONFINE_H
#define TEK_LIFE_CONFINE_H

/*
 * TEK does nothing in this program any more, because a seccomp filter that is about to be installed
 * would kill it for that system call of ours.  No thread of it is time-critical then, nor where or
 * what `tek run --place` made it.  Said once.
 */
void tek__confine(const char *call);

/* A filter that is about to be installed refuses to place threads, and kills for no call. */
void tek__confine_places(void);

#endif
