/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Block requests of critical tasks, and the interrupt threads and ksoftirqd that complete them.
 *
 * The completing thread of a request is not known when the request begins. Mostly one thread
 * completes all requests of a queue, so the thread that completed the queue's last request is
 * reported. A queue without a completed request uses the last completer of its disk.
 */
#ifndef TEK_BLOCK_H
#define TEK_BLOCK_H

#include "common.h"

/* request -> the critical task that it belongs to */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct member);
} requests SEC(".maps");

static __always_inline __u32 disk_of(struct request *request)
{
	struct gendisk *disk = BPF_CORE_READ(request, q, disk);
	if (!disk)
		return 0; /* the command has no disk */
	return (__u32)BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor);
}

static __always_inline struct place place_of(struct request *request, __u32 disk)
{
	struct blk_mq_hw_ctx *queue = BPF_CORE_READ(request, mq_hctx);
	return (struct place){disk, queue ? BPF_CORE_READ(queue, queue_num) : ANY_QUEUE};
}

/* A request is queued, or issued to the driver at once. Both tracepoints report some requests, and
 * another task may cause the second report. */
static __always_inline int begin_request(struct request *request)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	__u64 key = (__u64)request;
	if (bpf_map_update_elem(&requests, &key, &member, BPF_NOEXIST)) {
		if (!bpf_map_lookup_elem(&requests, &key))
			lose(TEK_KTHREAD_BLOCK);
		return 0;
	}
	__sync_fetch_and_add(&tallies.requests, 1);
	__u32 disk = disk_of(request);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_BLOCK, TEK_KTHREAD_REQUEST_BEGAN);
	if (!event)
		return 0;
	event->thing = key;
	event->dev = disk;
	fill_member(event, &member);
	struct place place = place_of(request, disk);
	struct completer *last = bpf_map_lookup_elem(&completers, &place);
	if (!last) {
		place.queue = ANY_QUEUE;
		last = bpf_map_lookup_elem(&completers, &place);
	}
	if (last) {
		event->kthread = last->tid;
		__builtin_memcpy(event->name, last->name, sizeof(event->name));
	}
	/* Where interrupts complete requests, no thread needs a boost. */
	send(event, member.is_new || (event->kthread && changes(&member, event->kthread)));
	return 0;
}

/* Whether the current task completes requests: irq/N-..., ksoftirqd/N or ktimers/N. */
static __always_inline bool completes(struct task_struct *task)
{
	if (!(task->flags & PF_KTHREAD))
		return false;
	__u32 begin = *(__u32 *)task->comm;
	const __u32 irq = 'i' | 'r' << 8 | 'q' << 16 | '/' << 24;
	const __u32 softirq = 'k' | 's' << 8 | 'o' << 16 | 'f' << 24;
	const __u32 timers = 'k' | 't' << 8 | 'i' << 16 | 'm' << 24;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	begin = __builtin_bswap32(begin);
#endif
	return (begin == irq || begin == softirq || begin == timers) &&
	       !(interrupts(task) & IN_INTERRUPT);
}

static __always_inline void note_completer(const struct place *place, int tid)
{
	struct completer *last = bpf_map_lookup_elem(&completers, place);
	if (last && last->tid == tid)
		return;
	struct completer now = {.tid = tid};
	bpf_get_current_comm(now.name, sizeof(now.name));
	bpf_map_update_elem(&completers, place, &now, BPF_ANY);
}

static __always_inline void end_request(struct request *request, bool completed)
{
	__u64 key = (__u64)request;
	struct member *found = bpf_map_lookup_elem(&requests, &key);
	if (!found)
		return;
	struct member member = *found;
	if (bpf_map_delete_elem(&requests, &key))
		return;
	__sync_fetch_and_add(&tallies.requests, -1);
	note_completion(&member);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_BLOCK, TEK_KTHREAD_REQUEST_ENDED);
	if (!event)
		return;
	event->thing = key;
	event->dev = disk_of(request);
	fill_member(event, &member);
	if (completed)
		fill_current(event);
	send(event, false);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(request_queued, struct request *request)
{
	return begin_request(request);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *request)
{
	return begin_request(request);
}

/* The request became a part of another request. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(request_merged, struct request *request)
{
	if (entries(requests) > 0)
		end_request(request, false);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *request, int error, unsigned int bytes)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	bool by_thread = completes(task);
	if (by_thread) {
		struct place place = place_of(request, disk_of(request));
		note_completer(&place, task->pid);
		place.queue = ANY_QUEUE;
		note_completer(&place, task->pid);
	}
	if (entries(requests) <= 0)
		return 0;
	note_completion(NULL);
	if (bytes >= BPF_CORE_READ(request, __data_len))
		end_request(request, by_thread);
	return 0;
}

#endif
