/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finds the pages of a range of this process's memory that are present, or were present and are
 * swapped out. It queries the kernel: by PAGEMAP_SCAN (Linux 6.7), else by pagemap, else by
 * mincore(2). mincore() does not report swapped-out pages. A process with a filter of system calls
 * (seccomp) does not use it.
 *
 * One descriptor of /proc/self/pagemap stays open, because opening it costs more than a query. If
 * the program closes it, or puts a file of its own there, it is opened again. The child of a fork
 * never uses it, because it shows the parent's memory.
 *
 * Nothing here needs a lock or allocates memory; async-signal-safe.
 */
#ifndef TEK_THREADS_PRESENT_H
#define TEK_THREADS_PRESENT_H

#include <stdbool.h>
#include <stdint.h>

enum { TEK_MANY_PAGES = 4096 }; /* that are asked for at a time where all are wanted */

struct tek_run {
	uintptr_t low, end;
	bool surely_written; /* its first page is not one of zeros that was only read */
};

/*
 * The lowest present pages in [low, end), whole pages: a run of them, which may be part of a
 * longer one; at most about `most` pages.  *run is {end, end} if none is present.  False: not
 * known.
 */
bool tek__present_lowest(uintptr_t low, uintptr_t end, unsigned int most, struct tek_run *run);

/* In the child of a fork. */
void tek__present_forget(void);

/* For tests: the ways that may be used, and the descriptor that is kept; -1: none. */
enum { TEK_PRESENT_SCAN = 1, TEK_PRESENT_PAGEMAP = 2, TEK_PRESENT_MINCORE = 4 };
extern unsigned int tek__present_ways;
int tek__present_fd(void);

#endif
