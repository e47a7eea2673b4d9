/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/shown.h"

struct tek_worker_place *_Atomic tek__shown_workers;
