/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "hook.h"

void hook_critical_begin(void) {}

void hook_critical_end(void) {}
