/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Network packets of critical tasks that ksoftirqd or backlog_napi processes.
 *
 * A packet to the task itself or to another container lies in the CPU's backlog. A packet for a
 * device whose queue is not empty waits in that queue. Mostly the task itself processes the packet,
 * in the softirq at the end of the same call. A packet that still lies there afterwards, while the
 * CPU's softirq thread waits to run, belongs to that thread. Only such packets are reported.
 *
 * The owner of a packet from outside is unknown until delivery, and a sent packet belongs to the
 * device. A packet that another CPU must process is not reported.
 */
#ifndef TEK_NETWORK_H
#define TEK_NETWORK_H

#include "common.h"

struct packet {
	/* The time of sending in ns times 4, plus these two bits. The time distinguishes a later
	 * packet in the same memory of the map. */
	__u64 state;
	struct member member;
	bool in_backlog; /* false: the packet is in a queue of its device */
	__u8 spare[3];
};

#define PACKET_REPORTED 1
#define PACKET_ENDED 2

/* packet -> its entry. The map evicts old entries without an event. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct packet);
} packets SEC(".maps");

struct carrier {
	int tid; /* 0: no such thread is awake */
	char name[TEK_KTHREAD_NAME_BYTES];
};

static __always_inline void note_if_it_waits(struct task_struct *thread, struct carrier *carrier)
{
	if (BPF_CORE_READ(thread, __state) != TASK_RUNNING)
		return;
	carrier->tid = BPF_CORE_READ(thread, pid);
	BPF_CORE_READ_STR_INTO(&carrier->name, thread, comm);
}

/* Finds the thread by its id, or by the CPU's pointer if its distance from struct rq is known. */
static __always_inline void aim_at(__u32 what, long long distance, struct carrier *carrier)
{
	struct task_struct *thread = NULL;
	if (&bpf_task_from_pid && &bpf_task_release) {
		__u32 key = bpf_get_smp_processor_id() | what << 16;
		int *tid = bpf_map_lookup_elem(&cpu_threads, &key);
		if (!tid)
			return;
		thread = bpf_task_from_pid(*tid);
		if (!thread)
			return;
		note_if_it_waits(thread, carrier);
		bpf_task_release(thread);
	} else if (distance && bpf_core_field_exists(struct cfs_rq, rq)) {
		struct task_struct *task = (void *)bpf_get_current_task_btf();
		void *rq = BPF_CORE_READ(task, se.cfs_rq, rq);
		bpf_probe_read_kernel(&thread, sizeof(thread), rq + distance);
		if (thread)
			note_if_it_waits(thread, carrier);
	}
}

/* The thread of this CPU that must process a packet. backlog_napi exists only on PREEMPT_RT and
 * with thread_backlog_napi. */
static __always_inline bool find_carrier(bool in_backlog, struct carrier *carrier)
{
	if (in_backlog)
		aim_at(TEK_KTHREAD_BACKLOG, settings.backlog_napi, carrier);
	if (!carrier->tid)
		aim_at(TEK_KTHREAD_KSOFTIRQD, settings.ksoftirqd, carrier);
	return carrier->tid;
}

/* Called for each packet. */
static __always_inline int end_packet(struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	struct packet *found = NULL;
	if (entries(packets) > 0)
		found = bpf_map_lookup_elem(&packets, &key);
	if (!found)
		return 0;
	struct packet packet = *found;
	/* From now on settle_packet() does not report the begin. */
	bool reported = __sync_fetch_and_or(&found->state, PACKET_ENDED) & PACKET_REPORTED;
	if (bpf_map_delete_elem(&packets, &key))
		return 0;
	__sync_fetch_and_add(&tallies.packets, -1);
	if (!reported)
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_NETWORK, TEK_KTHREAD_PACKET_ENDED);
	if (!event)
		return 0;
	event->thing = key;
	fill_member(event, &packet.member);
	send(event, false);
	return 0;
}

/* Reports the packet if a thread must process it, and otherwise removes its entry. If another CPU
 * ends the packet meanwhile, nothing is reported, because no report of the end would follow. */
static __always_inline void settle_packet(__u64 key)
{
	struct packet *found = bpf_map_lookup_elem(&packets, &key);
	if (!found)
		return;
	__u64 state = *(volatile __u64 *)&found->state;
	if (state & (PACKET_REPORTED | PACKET_ENDED))
		return;
	struct packet packet = *found;
	struct carrier carrier = {};
	struct tek_kthread_event *event = NULL;
	if (find_carrier(packet.in_backlog, &carrier))
		event = new_event(TEK_KTHREAD_NETWORK, TEK_KTHREAD_PACKET_BEGAN);
	if (!event) {
		if (!bpf_map_delete_elem(&packets, &key))
			__sync_fetch_and_add(&tallies.packets, -1);
		return;
	}
	/* The event's place in the ring precedes that of the end event, which is reserved later. */
	if (__sync_val_compare_and_swap(&found->state, state, state | PACKET_REPORTED) != state) {
		bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		return;
	}
	event->thing = key;
	fill_member(event, &packet.member);
	event->kthread = carrier.tid;
	__builtin_memcpy(event->name, carrier.name, sizeof(event->name));
	send(event, changes(&packet.member, event->kthread));
}

/* Without watching, the end of a packet is not reported. This event reports the task, so that
 * userland attaches the programs. The interval limits wake-ups if userland attaches nothing. */
#define ASK_NS 10000000

static __always_inline void ask_for_watch(const struct member *member, bool in_backlog)
{
	struct carrier carrier = {};
	__u64 now = bpf_ktime_get_ns();
	if (now - tallies.asked < ASK_NS)
		return;
	if (member->via || !find_carrier(in_backlog, &carrier))
		return;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_NETWORK, TEK_KTHREAD_PACKET_BEGAN);
	if (!event)
		return;
	tallies.asked = now;
	fill_member(event, member);
	send(event, true);
}

static __always_inline int begin_packet(struct sk_buff *skb, bool in_backlog)
{
	struct packet packet = {.in_backlog = in_backlog};
	if (!find_member(&packet.member))
		return 0;
	if (!settings.packets) {
		ask_for_watch(&packet.member, in_backlog);
		return 0;
	}
	__u64 key = (__u64)skb;
	/* The memory may have held another packet whose end was not seen. */
	end_packet(skb);
	packet.state = bpf_ktime_get_ns() << 2;
	if (bpf_map_update_elem(&packets, &key, &packet, BPF_NOEXIST)) {
		lose(TEK_KTHREAD_NETWORK);
		return 0;
	}
	__sync_fetch_and_add(&tallies.packets, 1);
	if (settings.packets == TEK_KTHREAD_AT_ONCE)
		settle_packet(key);
	return 0;
}

/* The packet enters the backlog. */
SEC("tp_btf/netif_rx")
int BPF_PROG(packet_given, struct sk_buff *skb)
{
	return begin_packet(skb, true);
}

/* The packet enters a device queue, unless the queue is empty and the device takes it at once. */
SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(packet_queued, struct Qdisc *queue, const struct netdev_queue *of, struct sk_buff *skb)
{
	return begin_packet(skb, false);
}

/* The sending call ends after the softirqs that it raised. If the caller keeps softirqs disabled,
 * a thread that was woken before counts. */
SEC("fexit/__dev_queue_xmit")
int BPF_PROG(packet_handed, struct sk_buff *skb)
{
	if (entries(packets) > 0)
		settle_packet((__u64)skb);
	return 0;
}

/* The packet leaves the queue for the device. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(packet_sent, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* The packet leaves the backlog for the protocols. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet_taken, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* Later kernels pass these two tracepoints more arguments after the packet. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* A packet that was cut into several is freed here. */
SEC("tp_btf/consume_skb")
int BPF_PROG(packet_freed, struct sk_buff *skb)
{
	return end_packet(skb);
}

#endif
