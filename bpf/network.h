/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Network packets of critical tasks that ksoftirqd or backlog_napi carries on.
 *
 * What a task sends to itself or to another container lies in its CPU's backlog, and where a queue of
 * the device is not empty the packet waits in that. Mostly the task itself carries it on at the end of
 * the same call, in the softirq that the call ends with. Only a packet that still lies there after that, while
 * the CPU's thread for softirqs waits to run, is that thread's, and only that is told.
 *
 * Of a packet that comes from outside nobody knows whose it is before it is delivered; one that a device
 * has, is the device's. What is left for another CPU to carry on is not seen.
 */
#ifndef TEK_NETWORK_H
#define TEK_NETWORK_H

#include "common.h"

struct packet {
	/* When it was handed over, in ns times 4, so that another one that lies in the same memory of the map
	 * later is not taken for it; and these two bits. */
	__u64 state;
	struct member member;
	bool in_backlog; /* otherwise in a queue of its device */
	__u8 spare[3];
};

#define PACKET_TOLD 1
#define PACKET_ENDED 2

/* packet -> that. Some end without a word: others push them out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct packet);
} packets SEC(".maps");

/* Since Linux 6.2. */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

struct carrier {
	int tid; /* 0: none has been woken */
	char name[TEK_KTHREAD_NAME_BYTES];
};

static __always_inline void note_if_it_waits(struct task_struct *thread, struct carrier *carrier)
{
	if (BPF_CORE_READ(thread, __state) != TASK_RUNNING)
		return;
	carrier->tid = BPF_CORE_READ(thread, pid);
	BPF_CORE_READ_STR_INTO(&carrier->name, thread, comm);
}

/* By its id, or else by where the CPU's variable points, if its distance from the run queue is known. */
static __always_inline void look_at(__u32 what, long long distance, struct carrier *carrier)
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

/* The thread of this CPU that will carry a packet on. backlog_napi there is on PREEMPT_RT and with
 * thread_backlog_napi alone. */
static __always_inline bool find_carrier(bool in_backlog, struct carrier *carrier)
{
	if (in_backlog)
		look_at(TEK_KTHREAD_BACKLOG, settings.backlog_napi, carrier);
	if (!carrier->tid)
		look_at(TEK_KTHREAD_KSOFTIRQD, settings.ksoftirqd, carrier);
	return carrier->tid;
}

/* Of any packet. */
static __always_inline int end_packet(struct sk_buff *skb)
{
	__u64 key = (__u64)skb;
	struct packet *found = NULL;
	if (entries(packets) > 0)
		found = bpf_map_lookup_elem(&packets, &key);
	if (!found)
		return 0;
	struct packet packet = *found;
	/* From now on it is not told any more that it began. */
	bool told = __sync_fetch_and_or(&found->state, PACKET_ENDED) & PACKET_TOLD;
	if (bpf_map_delete_elem(&packets, &key))
		return 0;
	__sync_fetch_and_add(&tallies.packets, -1);
	if (!told)
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_NETWORK, TEK_KTHREAD_PACKET_ENDED);
	if (!event)
		return 0;
	event->thing = key;
	fill_member(event, &packet.member);
	send(event, false);
	return 0;
}

/* Whether a thread will carry it on. If none does it is forgotten. Another CPU may do that meanwhile: then
 * nothing is told, for nobody would tell its end. */
static __always_inline void settle_packet(__u64 key)
{
	struct packet *found = bpf_map_lookup_elem(&packets, &key);
	if (!found)
		return;
	__u64 state = *(volatile __u64 *)&found->state;
	if (state & (PACKET_TOLD | PACKET_ENDED))
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
	/* The event has its place before that of the end, which is made after this. */
	if (__sync_val_compare_and_swap(&found->state, state, state | PACKET_TOLD) != state) {
		bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		return;
	}
	event->thing = key;
	fill_member(event, &packet.member);
	event->kthread = carrier.tid;
	__builtin_memcpy(event->name, carrier.name, sizeof(event->name));
	send(event, changes(&packet.member, event->kthread));
}

/* Its end could not be told yet: userland gets to know of the task, and attaches what it takes. If it
 * does not it is not woken for each packet. */
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
	/* Another packet can lie where one lay whose end was not seen. */
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

/* Into the backlog. */
SEC("tp_btf/netif_rx")
int BPF_PROG(packet_given, struct sk_buff *skb)
{
	return begin_packet(skb, true);
}

/* Into a queue of a device, unless that is empty and the device takes it at once. */
SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(packet_queued, struct Qdisc *queue, const struct netdev_queue *of, struct sk_buff *skb)
{
	return begin_packet(skb, false);
}

/* The call by which it was handed over ends, after softirqs that it has raised were done, unless the
 * caller keeps them off: then who was woken before counts. */
SEC("fexit/__dev_queue_xmit")
int BPF_PROG(packet_handed, struct sk_buff *skb)
{
	if (entries(packets) > 0)
		settle_packet((__u64)skb);
	return 0;
}

/* Out of the queue, to the device. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(packet_sent, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* Out of the backlog, to the protocols. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet_taken, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* Of these two later kernels tell more, behind the packet. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_dropped, struct sk_buff *skb)
{
	return end_packet(skb);
}

/* One that was cut into several is freed so. */
SEC("tp_btf/consume_skb")
int BPF_PROG(packet_freed, struct sk_buff *skb)
{
	return end_packet(skb);
}

#endif
