/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Workers, from the moment at which a work is queued, because a starved worker never begins it.
 *
 * The work of a bdi_writeback is here too. Any task or timer queues it, and it matters as long as
 * the bdi_writeback has an inode that a critical task made dirty (writeback.h).
 */
#ifndef TEK_WORKERS_H
#define TEK_WORKERS_H

#include "storage.h"
#include "wb_state.h"

/* A work that is queued. */
struct queued {
	__u64 function;
	struct member member; /* the task that queued it */
};

/* work -> its function and task */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct queued);
} works SEC(".maps");

/* Reports the workers that are busy when the work is queued. These are all busy workers where none
 * is idle. Otherwise only workers that run count, because their pool wakes no worker meanwhile. */
static __always_inline void report_ahead(struct worker_pool *pool, bool all,
					 struct work_struct *work, const struct member *member,
					 const struct wb_state *wb)
{
	__u64 end = (__u64)pool + bpf_core_field_offset(struct worker_pool, workers);
	struct list_head *at = BPF_CORE_READ(pool, workers.next);
	for (int i = 0; i < MAX_AHEAD && at && (__u64)at != end; i++) {
		struct worker *worker = (void *)at - bpf_core_field_offset(struct worker, node);
		at = BPF_CORE_READ(worker, node.next);
		if (!BPF_CORE_READ(worker, current_work) ||
		    (!all && BPF_CORE_READ(worker, sleeping)))
			continue;
		struct tek_kthread_event *event = new_event(TEK_KTHREAD_WORKERS,
							    member ? TEK_KTHREAD_WORK_AHEAD
								   : TEK_KTHREAD_WB_AHEAD);
		if (!event)
			return;
		event->thing = (__u64)work;
		fill_thread(event, BPF_CORE_READ(worker, task));
		if (member) {
			event->second = (__u64)BPF_CORE_READ(work, func);
			fill_member(event, member);
			send(event, changes(member, event->kthread));
		} else if (wb) {
			event->second = wb->wb;
			send(event, !covers(event->kthread, wb->low, wb->high));
		} else {
			bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
		}
	}
}

/* The work will not run for the task that queued it. */
static __always_inline void drop_work(__u64 work)
{
	if (bpf_map_delete_elem(&works, &work))
		return;
	__sync_fetch_and_add(&tallies.works, -1);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WORKERS, TEK_KTHREAD_WORK_DROPPED);
	if (!event)
		return;
	event->thing = work;
	send(event, false);
}

/* Whether a critical task waits for this work already. A task that wants a waiting work sooner
 * dequeues it and queues it again. Then the work still belongs to the first critical task, unless
 * another critical task queues it now. `ours`: it is queued for the critical task *member now.
 * If not, and the result is true, *member becomes the first critical task. */
static __always_inline bool waits_already(struct work_struct *work, bool ours,
					  struct member *member)
{
	__u64 key = (__u64)work;
	if (entries(works) <= 0)
		return false;
	struct queued *before = bpf_map_lookup_elem(&works, &key);
	if (!before)
		return false;
	/* Another work may lie at the address of a cancelled work. */
	if (before->function != (__u64)BPF_CORE_READ(work, func) ||
	    (ours && before->member.tid != member->tid)) {
		drop_work(key);
		return false;
	}
	if (!ours)
		*member = before->member;
	return true;
}

static __always_inline void queue_member(struct task_struct *idle, struct work_struct *work,
					 const struct member *member, bool again)
{
	struct queued queued = {.function = (__u64)BPF_CORE_READ(work, func), .member = *member};
	__u64 key = (__u64)work;
	queued.member.is_new = false; /* for later events of this work */
	if (bpf_map_update_elem(&works, &key, &queued, BPF_ANY)) {
		lose(TEK_KTHREAD_WORKERS);
		return;
	}
	if (!again)
		__sync_fetch_and_add(&tallies.works, 1);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WORKERS, TEK_KTHREAD_WORK_QUEUED);
	if (!event)
		return;
	event->thing = key;
	event->second = queued.function;
	fill_member(event, member);
	fill_thread(event, idle);
	send(event, changes(member, event->kthread));
}

static __always_inline void queue_wb(struct task_struct *idle, struct work_struct *work,
				     struct wb_state *wb)
{
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_WRITEBACK, TEK_KTHREAD_WB_QUEUED);
	if (!event)
		return;
	event->thing = (__u64)work;
	event->second = wb->wb;
	fill_thread(event, idle);
	wb->worker = event->kthread;
	send(event, !covers(event->kthread, wb->low, wb->high));
}

/* The kernel holds the lock of the pool here. */
SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(work_queued, int cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct member member = {};
	storage_queued(pwq, work);
	bool ours = find_member(&member) || find_completing(&member);
	struct wb_state *wb = find_wb((__u64)work);
	bool again = waits_already(work, ours, &member);
	ours |= again;
	if (!ours && !wb)
		return 0;
	struct worker_pool *pool = BPF_CORE_READ(pwq, pool);
	struct task_struct *idle = first_idle(pool);
	if (ours)
		queue_member(idle, work, &member, again);
	if (wb)
		queue_wb(idle, work, wb);
	if (!idle || BPF_CORE_READ(pool, nr_running) > 0)
		report_ahead(pool, !idle, work, ours ? &member : NULL, wb);
	return 0;
}

/* Without an entry the end cannot be reported, so the begin is not reported either. */
static __always_inline bool remember_running(struct work_struct *work, const struct member *member)
{
	struct running now = {.work = (__u64)work};
	int tid = (__u32)bpf_get_current_pid_tgid();
	now.function = (__u64)BPF_CORE_READ(work, func);
	if (member)
		now.member = *member;
	if (bpf_map_update_elem(&running, &tid, &now, BPF_NOEXIST) &&
	    bpf_map_update_elem(&running, &tid, &now, BPF_ANY)) {
		lose(TEK_KTHREAD_WORKERS);
		return false;
	}
	__sync_fetch_and_add(&tallies.running, 1);
	return true;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(work_started, struct work_struct *work)
{
	bool awaited = storage_started(work);
	if (entries(works) <= 0 && entries(inodes) <= 0 && !settings.boosted)
		return 0;
	__u64 key = (__u64)work;
	int tid = (__u32)bpf_get_current_pid_tgid();
	struct queued *found = bpf_map_lookup_elem(&works, &key);
	struct wb_state *wb = find_wb(key);
	struct tek_kthread_event *event;
	if (found) {
		struct member member = found->member;
		if (!bpf_map_delete_elem(&works, &key))
			__sync_fetch_and_add(&tallies.works, -1);
		if (!remember_running(work, &member))
			return 0;
		event = new_event(TEK_KTHREAD_WORKERS, TEK_KTHREAD_WORK_STARTED);
		if (event) {
			event->thing = key;
			event->second = (__u64)BPF_CORE_READ(work, func);
			fill_member(event, &member);
			fill_current(event);
			send(event, changes(&member, tid));
		}
	} else if (wb && !remember_running(work, NULL)) {
		return 0;
	}
	if (wb) {
		wb->worker = tid;
		event = new_event(TEK_KTHREAD_WRITEBACK, TEK_KTHREAD_WB_STARTED);
		if (event) {
			event->thing = key;
			event->second = wb->wb;
			fill_current(event);
			send(event, !covers(tid, wb->low, wb->high));
		}
	}
	if (!found && !wb && !awaited && is_boosted(tid)) {
		event = new_event(TEK_KTHREAD_WORKERS, TEK_KTHREAD_UNRELATED);
		if (event) {
			event->thing = key;
			event->second = (__u64)BPF_CORE_READ(work, func);
			fill_current(event);
			send(event, true);
		}
	}
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(work_ended, struct work_struct *work)
{
	storage_ended();
	if (entries(running) <= 0)
		return 0;
	__u64 key = (__u64)work;
	int tid = (__u32)bpf_get_current_pid_tgid();
	struct running *found = bpf_map_lookup_elem(&running, &tid);
	if (!found)
		return 0;
	struct member member = found->member;
	__u64 function = found->function;
	bpf_map_delete_elem(&running, &tid);
	__sync_fetch_and_add(&tallies.running, -1);
	struct tek_kthread_event *event;
	if (member.tid) {
		event = new_event(TEK_KTHREAD_WORKERS, TEK_KTHREAD_WORK_ENDED);
		if (event) {
			event->thing = key;
			event->second = function;
			fill_member(event, &member);
			fill_current(event);
			send(event, false);
		}
	}
	struct wb_state *wb = bpf_map_lookup_elem(&wbs, &key);
	if (wb) {
		if (wb->worker == tid)
			wb->worker = 0;
		event = new_event(TEK_KTHREAD_WRITEBACK, TEK_KTHREAD_WB_ENDED);
		if (event) {
			event->thing = key;
			event->second = wb->wb;
			fill_current(event);
			send(event, false);
		}
	}
	return 0;
}

/* A task that cancels a work dequeues it in this function, which then returns 1. A kernel without
 * this function reports the cancellation only when the work is queued again. */
SEC("fexit/try_to_grab_pending")
int BPF_PROG(work_cancelled, struct work_struct *work, unsigned long a, unsigned long b, int result)
{
	if (result == 1)
		storage_cancelled(work);
	if (entries(works) > 0 && result == 1)
		drop_work((__u64)work);
	return 0;
}

#endif
