/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The middle of what was measured in several rounds. */
#ifndef APPLIANCE_MEDIAN_H
#define APPLIANCE_MEDIAN_H

#include <stddef.h>

/* The median of one value or more, which are in order afterwards. */
double median(double *values, size_t count);

#endif
