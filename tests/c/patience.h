/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Time limits of tests.  $TEK_TEST_PATIENCE multiplies them: guests of the lab are emulated. */
#ifndef TEK_TESTS_PATIENCE_H
#define TEK_TESTS_PATIENCE_H

#include <stdlib.h>
#include <unistd.h>

static inline unsigned int patient_seconds(unsigned int seconds)
{
	const char *patience = getenv("TEK_TEST_PATIENCE");
	const int factor = patience ? atoi(patience) : 1;

	return factor > 1 ? seconds * (unsigned int)factor : seconds;
}

/* The process ends by SIGALRM after this time. */
static inline void limit_to(unsigned int seconds)
{
	alarm(patient_seconds(seconds));
}

#endif
