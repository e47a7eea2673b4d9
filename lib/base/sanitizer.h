/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Detects the run-time of a sanitizer, which restricts the threads in which TEK can work. The start
 * of TEK calls these. They need no lock.
 */
#ifndef TEK_BASE_SANITIZER_H
#define TEK_BASE_SANITIZER_H

#include <stdbool.h>

/*
 * Whether the program itself holds the runtime of AddressSanitizer,
 * ThreadSanitizer or MemorySanitizer, as clang links it.  That runtime starts
 * threads before ours and would have our code run in threads that it does not
 * know yet.  (A runtime in a library, as gcc links it, comes after libtek.so.)
 */
bool tek__sanitizer_in_program(void);

/* At start: look whether any of them is there, in the program or in a library; and whether. */
void tek__sanitizer_start(void);
bool tek__sanitizer_is_loaded(void);

/*
 * Whether ThreadSanitizer is there at all.  It gives up a thread in the last
 * round of the destructors of thread-specific data.
 */
bool tek__sanitizer_of_threads(void);

#endif
