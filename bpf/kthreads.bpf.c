/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The BPF programs that crates/tek-bpf loads: they report for which task a kernel thread works.
 *
 * Each program belongs to one dependency (kthreads.h). The loader leaves out a program whose hook
 * the kernel lacks. All attach by tp_btf, fentry or fexit, and return at once for ordinary tasks.
 */
#include "block.h"
#include "creation.h"
#include "exits.h"
#include "locks.h"
#include "network.h"
#include "objects.h"
#include "page_cache.h"
#include "reclaim.h"
#include "storage.h"
#include "uring.h"
#include "workers.h"
#include "writeback.h"

/* crates/tek-bpf/src/event.rs has the same assertions. */
_Static_assert(sizeof(struct tek_kthread_event) == 64, "an event is 64 bytes");
_Static_assert(__builtin_offsetof(struct tek_kthread_event, kind) == 40, "kind is at 40");
_Static_assert(__builtin_offsetof(struct tek_kthread_event, name) == 48, "name is at 48");

/* The kernel offers some helpers to programs under the GPL only. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
