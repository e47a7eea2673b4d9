/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/overflow.h"

void tek__overflow_watch(void) {}
