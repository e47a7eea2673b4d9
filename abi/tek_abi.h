/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface of TEK's C and Rust halves: the thread information table in shared memory, the
 * event file of a run, and the messages of the daemon's socket. Users include this header; each
 * of its parts has one of these subjects:
 *
 *   tek_types.h       integers, and assertions about structs
 *   tek_table.h       the file of the thread information table
 *   tek_record.h      one thread in it
 *   tek_inversions.h  threads in it that hold up Fast ones
 *   tek_event.h       the event file
 *   tek_message.h     the daemon's socket
 *
 * These headers include no other ones and hold plain structs only, so that C, BPF and Rust
 * (crates/tek-abi, which repeats them and asserts the same sizes and offsets) can all read them.
 * Change a struct and TEK_ABI_VERSION changes too.
 */
#ifndef TEK_ABI_H
#define TEK_ABI_H

#include "tek_event.h"
#include "tek_inversions.h"
#include "tek_message.h"
#include "tek_record.h"
#include "tek_table.h"
#include "tek_types.h"

#define TEK_ABI_VERSION 6u

/*
 * The scheduling policy number of SCHED_TEK.  No kernel accepts it (Linux knows
 * 0 to 7), so a request that does not reach TEK fails with EINVAL instead of
 * meaning something else.  It fits in a record's 8-bit policy field.
 */
#define TEK_SCHED_POLICY 84

/* Groups of threads (cpu-mediator-2019, 3.1). */
#define TEK_GROUP_NORMAL 0u     /* on the screen; where every thread starts */
#define TEK_GROUP_URGENT 1u     /* on the screen and interacting with the user */
#define TEK_GROUP_SERVICE 2u    /* daemons */
#define TEK_GROUP_BACKGROUND 3u /* at work, invisible to the user */

/* Regions (tek-2020, IV-A). */
#define TEK_REGION_NONE 0u /* normal mode as far as this process knows */
#define TEK_REGION_FAST 1u /* runs before everything fair on the device */

#endif
