/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The place of a call in the program, for a function that the program calls. */
#ifndef TEK_BASE_CALL_H
#define TEK_BASE_CALL_H

#include <stdint.h>

/* The address to which the function returns in which this stands. */
#define TEK_CALL ((uintptr_t)__builtin_return_address(0))

#endif
