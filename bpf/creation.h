/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* New kernel threads: kthreadd creates them one by one, and each requester waits for its thread. */
#ifndef TEK_CREATION_H
#define TEK_CREATION_H

#include "common.h"

/* tid of a task that waits for a new kernel thread -> the description of the task */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct member);
} creating SEC(".maps");

static __always_inline void report_creation(enum tek_kthread_kind kind, const struct member *member,
					    bool wake)
{
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_CREATION, kind);
	if (!event)
		return;
	event->thing = member->tid;
	event->kthread = KTHREADD;
	fill_member(event, member);
	send(event, wake);
}

SEC("fentry/__kthread_create_on_node")
int BPF_PROG(creation_began)
{
	struct member member = {};
	if (!find_member(&member))
		return 0;
	if (bpf_map_update_elem(&creating, &member.tid, &member, BPF_NOEXIST)) {
		lose(TEK_KTHREAD_CREATION);
		return 0;
	}
	__sync_fetch_and_add(&tallies.creations, 1);
	report_creation(TEK_KTHREAD_CREATION_BEGAN, &member, changes(&member, KTHREADD));
	return 0;
}

SEC("fexit/__kthread_create_on_node")
int BPF_PROG(creation_ended)
{
	if (entries(creations) <= 0)
		return 0;
	int tid = (__u32)bpf_get_current_pid_tgid();
	struct member *found = bpf_map_lookup_elem(&creating, &tid);
	if (!found)
		return 0;
	struct member member = *found;
	if (bpf_map_delete_elem(&creating, &tid))
		return 0;
	__sync_fetch_and_add(&tallies.creations, -1);
	report_creation(TEK_KTHREAD_CREATION_ENDED, &member, false);
	return 0;
}

/* Runs while a task waits for a thread, or while kthreadd is boosted. Userland boosts kthreadd to
 * signal a waiter where functions cannot be hooked. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(thread_born, struct task_struct *parent, struct task_struct *child)
{
	int kthreadd = KTHREADD;
	if ((entries(creations) <= 0 && !settings.boosted) || parent->pid != kthreadd)
		return 0;
	if (entries(creations) <= 0 && !is_boosted(kthreadd))
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_CREATION, TEK_KTHREAD_BORN);
	if (!event)
		return 0;
	fill_thread(event, child);
	event->thing = event->kthread;
	send(event, true);
	return 0;
}

#endif
