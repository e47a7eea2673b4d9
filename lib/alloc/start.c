/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The start of libtek-alloc.so, if no call wanted memory before, and the environment is empty. */
#include "alloc/heap.h"

__attribute__((constructor(101))) static void start(void)
{
	tek_alloc__heap_begin(true);
}
