/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Numbers on the command line of benchmark programs. */
#ifndef APPLIANCE_NUMBER_H
#define APPLIANCE_NUMBER_H

#include <stdint.h>

/* The number that an option was given; exits with a message if it is none, or out of range. */
uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max);

#endif
