/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Requests that io_uring hands to a worker of the task's process. */
#ifndef TEK_URING_H
#define TEK_URING_H

#include "common.h"

/* request -> the task that it belongs to. The map evicts old entries without an event. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct member);
} uring SEC(".maps");

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(uring_queued, struct io_kiocb *request)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	__u64 key = (__u64)request;
	if (bpf_map_update_elem(&uring, &key, &member, BPF_ANY)) {
		lose(TEK_KTHREAD_URING);
		return 0;
	}
	tallies.uring = 1;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_URING, TEK_KTHREAD_URING_QUEUED);
	if (!event)
		return 0;
	event->thing = key;
	fill_member(event, &member);
	send(event, true); /* the worker that will take the request is not known */
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(uring_ended, void *context, void *request)
{
	if (!tallies.uring)
		return 0;
	__u64 key = (__u64)request;
	struct member *found = bpf_map_lookup_elem(&uring, &key);
	if (!found)
		return 0;
	struct member member = *found;
	if (bpf_map_delete_elem(&uring, &key))
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_URING, TEK_KTHREAD_URING_ENDED);
	if (!event)
		return 0;
	event->thing = key;
	fill_member(event, &member);
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	if (task->flags & PF_IO_WORKER)
		fill_current(event);
	send(event, false);
	return 0;
}

#endif
