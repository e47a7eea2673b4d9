/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Keeping a thread on one CPU, where two threads must share one. */
#ifndef APPLIANCE_PIN_H
#define APPLIANCE_PIN_H

#include <sched.h>

/*
 * Pin the calling thread to the last CPU that it may use, and give the CPUs that it
 * had in *before unless that is NULL.  Exits with a message on failure.
 */
void pin_to_last_cpu(cpu_set_t *before);

#endif
