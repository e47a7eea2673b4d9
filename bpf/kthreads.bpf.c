/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Which kernel thread works for whom: the programs that crates/tek-bpf loads.
 *
 * Each program is for one dependency (kthreads.h) and can be left out where the kernel lacks what it
 * hooks. All are attached by tp_btf or fentry, and return at once for who is not critical.
 */
#include "block.h"
#include "creation.h"
#include "exits.h"
#include "page_cache.h"
#include "reclaim.h"
#include "uring.h"
#include "workers.h"
#include "writeback.h"

/* The kernel gives some helpers to programs under the GPL only. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";
