/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The path of a touch event: touch reads it, ui decides what it means, render draws
 * the answer; 20 ms of CPU work in all.  The next event is due a scripted pause
 * after the answer, so the path keeps a CPU busy at most a third of the time.
 */
#ifndef APPLIANCE_EVENT_PATH_H
#define APPLIANCE_EVENT_PATH_H

#include "options.h"

#include <stdint.h>

/* Add the threads. Call before threads_start(). */
void event_path_add(const struct options *options);

/* Main thread, in STAGE_EVENTS: wait until the last event has been answered. */
void event_path_wait(void);

/* From the time an event was due to the end of its answer, in ns, an entry an event. */
extern uint64_t *responses_ns;

#endif
