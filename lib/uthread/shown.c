/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/shown.h"

struct tek_worker_place *_Atomic tek__shown_workers;
void (*tek__shown_newcomer)(struct tek_uthread *);
void (*tek__shown_gone)(struct tek_uthread *);
