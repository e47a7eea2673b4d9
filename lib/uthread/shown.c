/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/shown.h"

struct tek_worker_place *_Atomic tek_ut__shown_workers;
void (*tek_ut__shown_newcomer)(struct tek_uthread *);
void (*tek_ut__shown_gone)(struct tek_uthread *);
