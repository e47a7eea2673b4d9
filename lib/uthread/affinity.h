/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* On which CPU the carriers of a worker stay, with the engine's option `pin`. */
#ifndef TEK_UTHREAD_AFFINITY_H
#define TEK_UTHREAD_AFFINITY_H

struct tek_carrier;
struct tek_worker;

/* Which CPUs the process may use, at the start of the engine. */
void tek__affinity_start(void);
unsigned int tek__affinity_cpus(void);

/* By the carrier's kernel thread. */
void tek__affinity_set(struct tek_worker *worker, struct tek_carrier *carrier);

#endif
