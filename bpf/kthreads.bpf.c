/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which kernel thread works for whom: the programs that crates/tek-bpf loads.
 *
 * Each program is for one dependency (kthreads.h) and can be left out where the kernel lacks what it
 * hooks. All are attached by tp_btf or fentry, and return at once for who is not critical.
 */
#include "block.h"
#include "creation.h"
#include "exits.h"
#include "network.h"
#include "page_cache.h"
#include "reclaim.h"
#include "storage.h"
#include "uring.h"
#include "workers.h"
#include "writeback.h"

/* crates/tek-bpf/src/event.rs asserts the same. */
_Static_assert(sizeof(struct tek_kthread_event) == 64, "an event is 64 bytes");
_Static_assert(__builtin_offsetof(struct tek_kthread_event, kind) == 40, "kind is at 40");
_Static_assert(__builtin_offsetof(struct tek_kthread_event, name) == 48, "name is at 48");

/* The kernel gives some helpers to programs under the GPL only. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
