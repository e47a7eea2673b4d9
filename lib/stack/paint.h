/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Paint on a stack: what is changed of it was used.  Only the calling thread's own is painted,
 * and the caller leaves room for the frames of the functions below.
 */
#ifndef TEK_STACK_PAINT_H
#define TEK_STACK_PAINT_H

#include <stdbool.h>
#include <stdint.h>

enum { TEK_PAINT_BYTE = 0xd7 };

/* A word of it. */
#define TEK_PAINT (UINTPTR_MAX / 0xff * TEK_PAINT_BYTE)

/* False: the program has forbidden to write there. */
bool tek__paint(uintptr_t low, uintptr_t end);

/*
 * Paints the present pages of [low, end), and nothing else: from `*lowest` on, with holes or
 * without. False: not known.
 */
bool tek__paint_present(uintptr_t low, uintptr_t end, uintptr_t *lowest, bool *holes);

#endif
