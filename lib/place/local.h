/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks that are local to the CPU of their thread, on machines where memory is nearer to some CPUs
 * than to others (the page homing of rtos-linux-scalability-2018, 3.1.4).
 *
 * Linux takes a page from the node of the CPU that touches it first. A placed thread
 * touches its stack first, except in two cases. The C library may give it the stack of a thread
 * that ended, maybe on another CPU; and the creator has written the top of a new stack. TEK moves
 * these pages with their content. Dropping them (MADV_DONTNEED) would cost a fault for each page
 * that is used again, and lose the paint that measures stacks.
 */
#ifndef TEK_PLACE_LOCAL_H
#define TEK_PLACE_LOCAL_H

/* So many pages at a time. */
enum { TEK_LOCAL_PAGES = 64 };

/*
 * The calling thread's stack, if the C library made it: what of it lies on other nodes than the one
 * of the CPU that it runs on comes here.  Only what is present is touched.  The kernel is asked
 * once for 64 pages, and once more if some of them have to move.
 */
void tek__local_own_stack(void);

/*
 * Selects the strangers of the pages, those on other nodes than `own`. `status` is the result of
 * move_pages(2) for each page: a node or a negative error number. They come to the front of
 * `pages`; returns how many.
 */
unsigned int tek__local_strangers(void *pages[], const int status[], unsigned int count, int own);

#endif
