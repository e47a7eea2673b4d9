/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The end of tasks. The kernel reuses their ids, so entries by id end here, before userland
 * receives the event. */
#ifndef TEK_EXITS_H
#define TEK_EXITS_H

#include "answers.h"
#include "page_cache.h"

SEC("tp_btf/sched_process_exit")
int BPF_PROG(task_exited, struct task_struct *task)
{
	int tid = task->pid;
	bool known = tallies.tasks + settings.tasks > 0 && !bpf_map_delete_elem(&tasks, &tid);
	if (known)
		__sync_fetch_and_add(&tallies.tasks, -1);
	if (settings.fast)
		known |= !bpf_map_delete_elem(&fast, &tid);
	if (settings.boosted)
		known |= !bpf_map_delete_elem(&boosted, &tid);
	if (entries(sends) > 0)
		forget_sends(tid);
	if (entries(awaited) > 0 && !bpf_map_delete_elem(&awaited, &tid)) {
		__sync_fetch_and_add(&tallies.awaited, -1);
		known = true;
	}
	if (!known)
		return 0;
	bpf_map_delete_elem(&brought, &tid);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_EXITS, TEK_KTHREAD_TASK_EXITED);
	if (!event)
		return 0;
	event->task = tid;
	event->process = task->tgid;
	send(event, false);
	return 0;
}

#endif
