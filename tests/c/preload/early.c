/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Checks that all calls of early_calls.c succeeded while TEK's library was not initialised. */
#include <stdio.h>
#include <stdlib.h>

extern int early_calls_made __attribute__((weak));

enum { ALL = 28 };

int main(void)
{
	free(malloc(1));
	if (!&early_calls_made || early_calls_made != ALL) {
		printf("%d of %d calls succeeded\n", &early_calls_made ? early_calls_made : -1,
		       ALL);
		return 1;
	}
	return 0;
}
