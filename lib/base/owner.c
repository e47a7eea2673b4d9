/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/owner.h"

const struct tek_owner *tek__owner;
