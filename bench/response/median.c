/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "median.h"

#include <stdlib.h>

static int ascending(const void *one, const void *other)
{
	const double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), ascending);
	return values[count / 2];
}
