/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * On which CPU the carriers of a worker stay, with the engine's option `pin`.
 *
 * The program does not see that: it is told what the process may use, and what it starts begins with that.
 */
#ifndef TEK_UTHREAD_AFFINITY_H
#define TEK_UTHREAD_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tek_carrier;
struct tek_worker;

/* Which CPUs the process may use, at the start of the engine. */
void tek__affinity_start(void);
unsigned int tek__affinity_cpus(void);

/* By the carrier's kernel thread. */
void tek__affinity_set(struct tek_worker *worker, struct tek_carrier *carrier);

/* The program got the CPUs of a kernel thread, 0: the calling one: of a carrier that is kept to one it gets all. */
void tek__affinity_tell(pid_t tid, size_t bytes, cpu_set_t *cpus);

/* It sets them to what it was told: the carrier stays where it is. */
bool tek__affinity_stays(pid_t tid, size_t bytes, const cpu_set_t *cpus);

/*
 * The calling kernel thread is about to start a program: it may run on all CPUs until it steps in again.  False: it is
 * on none of its own.  In the child of vfork() too.  errno stays.
 */
bool tek__affinity_step_out(void);
void tek__affinity_step_in(void);

#endif
