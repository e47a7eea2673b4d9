/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages that threads are not preempted: the reason and the cure. The first one is reported. */
#ifndef TEK_UTHREAD_UNPREEMPTED_H
#define TEK_UTHREAD_UNPREEMPTED_H

/* timer_create(2) has failed with this error. */
void tek_ut__unpreempted_without_timer(int error);

/* /proc/self/maps could not be read, for this error. */
void tek_ut__unpreempted_without_maps(int error);

#endif
