/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The cause of a late answer.  A thread more urgent than the task notes, while an answer is late,
 * which threads wait inside the kernel: the task itself, kernel threads that are ready and have no
 * CPU, and all that sleep until another one is done.
 *
 * late_start() is called before the times are known, late_begin() and late_end() around each
 * answer, late_join() and late_print() at the end.
 */
#ifndef KTHREAD_LATE_H
#define KTHREAD_LATE_H

#include <stdint.h>

/* Watch the calling thread; an answer is late after so long. */
void late_start(uint64_t late_ns, int priority);

/* The answer that is due then begins. */
void late_begin(uint64_t due_ns);

/* It has come. */
void late_end(void);

void late_join(void);

/* Print `"late":[...]`; times are since from_ns. */
void late_print(uint64_t from_ns);

#endif
