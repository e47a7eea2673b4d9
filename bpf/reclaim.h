/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kswapd and kcompactd of each node, from the wake-up by a critical task until the thread sleeps
 * again, and tasks in direct reclaim. */
#ifndef TEK_RECLAIM_H
#define TEK_RECLAIM_H

#include "common.h"

/* node | kind of thread << 16 -> tid: kthreads.h */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, int);
} reclaimers SEC(".maps");

/* tid of a task in direct reclaim -> the description of the task */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct member);
} reclaiming SEC(".maps");

static __always_inline int reclaimer(int node, __u32 what)
{
	__u32 key = (__u32)node | what << 16;
	int *tid = bpf_map_lookup_elem(&reclaimers, &key);
	return tid ? *tid : 0;
}

static __always_inline int want(int node, __u32 what, __u64 *wanted, enum tek_kthread_kind kind)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	__sync_fetch_and_or(wanted, 1ull << (node & 63));
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_RECLAIM, kind);
	if (!event)
		return 0;
	event->thing = node;
	event->kthread = reclaimer(node, what);
	fill_member(event, &member);
	send(event, changes(&member, event->kthread));
	return 0;
}

static __always_inline int sleep(int node, __u32 what, __u64 *wanted, enum tek_kthread_kind kind)
{
	__u64 bit = 1ull << (node & 63);
	if (!(*wanted & bit))
		return 0;
	__sync_fetch_and_and(wanted, ~bit);
	__u32 key = (__u32)node | what << 16;
	int tid = (__u32)bpf_get_current_pid_tgid();
	bpf_map_update_elem(&reclaimers, &key, &tid, BPF_ANY);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_RECLAIM, kind);
	if (!event)
		return 0;
	event->thing = node;
	fill_current(event);
	send(event, false);
	return 0;
}

SEC("tp_btf/mm_vmscan_wakeup_kswapd")
int BPF_PROG(kswapd_wanted, int node)
{
	return want(node, TEK_KTHREAD_KSWAPD, &tallies.kswapd, TEK_KTHREAD_KSWAPD_WANTED);
}

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(kswapd_slept, int node)
{
	return sleep(node, TEK_KTHREAD_KSWAPD, &tallies.kswapd, TEK_KTHREAD_KSWAPD_SLEPT);
}

SEC("tp_btf/mm_compaction_wakeup_kcompactd")
int BPF_PROG(compact_wanted, int node)
{
	return want(node, TEK_KTHREAD_KCOMPACTD, &tallies.kcompactd, TEK_KTHREAD_KCOMPACTD_WANTED);
}

SEC("tp_btf/mm_compaction_kcompactd_sleep")
int BPF_PROG(compact_slept, int node)
{
	return sleep(node, TEK_KTHREAD_KCOMPACTD, &tallies.kcompactd, TEK_KTHREAD_KCOMPACTD_SLEPT);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(reclaim_began)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	if (bpf_map_update_elem(&reclaiming, &member.tid, &member, BPF_NOEXIST)) {
		lose(TEK_KTHREAD_RECLAIM);
		return 0;
	}
	__sync_fetch_and_add(&tallies.reclaiming, 1);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_RECLAIM, TEK_KTHREAD_RECLAIM_BEGAN);
	if (!event)
		return 0;
	event->thing = bpf_get_numa_node_id();
	event->kthread = reclaimer(event->thing, TEK_KTHREAD_KSWAPD);
	fill_member(event, &member);
	send(event, changes(&member, event->kthread));
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(reclaim_ended)
{
	if (entries(reclaiming) <= 0)
		return 0;
	int tid = (__u32)bpf_get_current_pid_tgid();
	struct member *found = bpf_map_lookup_elem(&reclaiming, &tid);
	if (!found)
		return 0;
	struct member member = *found;
	if (bpf_map_delete_elem(&reclaiming, &tid))
		return 0;
	__sync_fetch_and_add(&tallies.reclaiming, -1);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_RECLAIM, TEK_KTHREAD_RECLAIM_ENDED);
	if (!event)
		return 0;
	event->thing = bpf_get_numa_node_id();
	event->kthread = reclaimer(event->thing, TEK_KTHREAD_KSWAPD);
	fill_member(event, &member);
	send(event, false);
	return 0;
}

#endif
