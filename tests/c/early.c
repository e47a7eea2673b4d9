/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether calls that come while a library of ours starts come through: early_calls.c makes them. */
#include <stdio.h>
#include <stdlib.h>

extern int early_calls_made __attribute__((weak));

enum { ALL = 26 };

int main(void)
{
	free(malloc(1));
	if (!&early_calls_made || early_calls_made != ALL) {
		printf("%d of %d calls came through\n", &early_calls_made ? early_calls_made : -1,
		       ALL);
		return 1;
	}
	return 0;
}
