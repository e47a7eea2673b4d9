// SPDX-License-Identifier: MIT OR Apache-2.0
// The same source in C++.
#define ON "fiber.hpp"
extern "C" {
#include "../response/clock.h"
#include "../response/pin.h"
}
#include "threads_micro.c"
