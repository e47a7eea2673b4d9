/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * optional - a program that uses TEK where it is loaded and runs without it elsewhere.
 *
 * It is linked with no library of TEK.  Compare `optional` and `tek run -- optional`.
 */
#define _GNU_SOURCE
#define TEK_OPTIONAL
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tek/tek_optional.h>

int main(void)
{
	struct sched_param param = {.sched_priority = -5}; /* a nice value */
	int error = pthread_setschedparam(pthread_self(), SCHED_TEK, &param);

	if (error)
		fprintf(stderr, "not time-critical: %s\n", strerror(error));
	printf("%s\n", tek_present() ? "with TEK" : "without TEK");
	return 0;
}
