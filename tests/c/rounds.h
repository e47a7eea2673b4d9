/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How often a test does what goes wrong but seldom. */
#ifndef TEK_TESTS_ROUNDS_H
#define TEK_TESTS_ROUNDS_H

#include <stdlib.h>

/*
 * As often as is usual, or the percentage in TEK_TEST_ROUNDS, where creating a thread takes long.
 */
static inline int rounds(int usual)
{
	const char *percentage = getenv("TEK_TEST_ROUNDS");
	if (percentage == NULL)
		return usual;
	int fewer = (int)((long)usual * atoi(percentage) / 100);
	return fewer < 1 ? 1 : fewer;
}

#endif
