/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Transparent huge pages: Documentation/admin-guide/mm/transhuge.rst.  Where the kernel gives them
 * to everybody, one touch of a stack makes megabytes of it present, and what is present no longer
 * tells what was used.
 */
#ifndef TEK_STACK_HUGE_PAGES_H
#define TEK_STACK_HUGE_PAGES_H

#include <stdint.h>

/* At the start of the process. */
void tek__huge_pages_start(void);

/*
 * From here on a stack gets small pages.  What a huge one has brought below `unused_end`, where
 * nothing is in use, is given back; the three are addresses of pages.
 */
void tek__huge_pages_refuse(uintptr_t low, uintptr_t unused_end, uintptr_t end);

#endif
