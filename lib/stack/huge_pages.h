/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Transparent huge pages: Documentation/admin-guide/mm/transhuge.rst. Where the kernel gives them
 * to all processes, one touch of a stack makes megabytes of it present, and the present pages no
 * longer show the use.
 */
#ifndef TEK_STACK_HUGE_PAGES_H
#define TEK_STACK_HUGE_PAGES_H

#include <stdint.h>

/* At the start of the process. */
void tek__huge_pages_start(void);

/*
 * From here on a stack gets small pages. The part of a huge page below `unused_end`, where nothing
 * is in use, is returned; the three are addresses of pages.
 */
void tek__huge_pages_refuse(uintptr_t low, uintptr_t unused_end, uintptr_t end);

#endif
