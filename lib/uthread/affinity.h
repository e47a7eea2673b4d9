/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The CPU on which the carriers of a worker stay, with the engine's option `pin`.
 *
 * The program does not see that: it reads the CPUs that the process may use, and its children start
 * with those.
 */
#ifndef TEK_UTHREAD_AFFINITY_H
#define TEK_UTHREAD_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tek_carrier;
struct tek_worker;

/* The CPUs that the process may use, at the start of the engine. */
void tek_ut__affinity_start(void);
unsigned int tek_ut__affinity_cpus(void);

/* By the carrier's kernel thread. */
void tek_ut__affinity_set(struct tek_worker *worker, struct tek_carrier *carrier);

/*
 * The program read the CPUs of a kernel thread, 0: the calling one. For a pinned carrier `cpus`
 * becomes all of the process's.
 */
void tek_ut__affinity_report(pid_t tid, size_t bytes, cpu_set_t *cpus);

/* The program sets them to the reported ones: the carrier stays pinned. */
bool tek_ut__affinity_stays(pid_t tid, size_t bytes, const cpu_set_t *cpus);

/*
 * The calling kernel thread is about to start a program: it may run on all CPUs until it steps in
 * again. False: it is not pinned. In the child of vfork() too. errno stays.
 */
bool tek_ut__affinity_step_out(void);
void tek_ut__affinity_step_in(void);

#endif
