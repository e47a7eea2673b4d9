/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Parts that all programs share: critical tasks, the maps that userland writes, sending of events.
 *
 * Each map entry ends with its work, inode, request or task. A full map counts as a lost event: the
 * programs cannot report the end of a relation without an entry. They do not report its begin.
 */
#ifndef TEK_COMMON_H
#define TEK_COMMON_H

#include "kernel.h"
#include "kthreads.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define RING_BYTES (256 * 1024)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} events SEC(".maps");

/* tid -> enum tek_kthread_follow */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, int);
	__type(value, __u32);
} tasks SEC(".maps");

/* tid of an ordinary thread that is critical -> its priority, 1 to 99 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, int);
	__type(value, __u32);
} fast SEC(".maps");

/* tid of a kernel thread that is or was boosted -> priorities that its boost covers, or zeros */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct tek_kthread_covered);
} boosted SEC(".maps");

/* A critical task, or a thread that works for a critical task. */
struct member {
	int tid;
	int process;
	__u8 priority;
	bool via;    /* the member is a thread that works for a critical task */
	bool is_new; /* userland has not set yet whether it follows this task */
};

/* A user thread that a critical task waits for: for a lock that it holds, or for its answer. */
struct awaited {
	int waiter;
	__u8 priority; /* of the critical task */
	__u8 spare[3];
	__u64 until; /* ns, if the waiter has sent and does not sleep yet; 0: until it is woken */
};

/* tid of such a thread -> its most urgent waiter */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, int);
	__type(value, struct awaited);
} awaited SEC(".maps");

/* The work that a worker runs at present. */
struct running {
	__u64 work;
	__u64 function;
	struct member member; /* tid 0: no single task, it is the work of a bdi_writeback */
};

/* tid of a worker -> its work */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct running);
} running SEC(".maps");

/* CPU | kind of thread << 16 -> tid, written by userland: kthreads.h */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, int);
} cpu_threads SEC(".maps");

/* A queue of a disk. */
struct place {
	__u32 disk;
	__u32 queue;
};

#define ANY_QUEUE ((__u32)-1)

/* The thread that completed the last request of a place. */
struct completer {
	int tid;
	char name[TEK_KTHREAD_NAME_BYTES];
};

/* disk and queue -> the last completer */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct place);
	__type(value, struct completer);
} completers SEC(".maps");

#define KTHREADD 2 /* the tid of kthreadd */

/* Since Linux 6.2. */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
/* Since Linux 6.14: by an id in the namespace of the current task. */
extern struct task_struct *bpf_task_from_vpid(__s32 vpid) __ksym __weak;

volatile struct tek_kthread_settings settings SEC(".data.settings") = {};
struct tek_kthread_tallies tallies SEC(".data.tallies") = {};

/* The number of entries of a map that programs fill. */
#define entries(map) (tallies.map - settings.removed.map)

/* Not 0 in an interrupt, where `current` is the interrupted task only. x86 keeps preempt_count in a
 * per-CPU variable, and many kernels do not publish its address. The variable lies at a fixed
 * distance from the run queue, which tasks point to. Without either the result is 0. */
static __always_inline __u32 interrupts(struct task_struct *task)
{
	__u32 count = 0;
	struct task_struct___counted *counted = (void *)task;
	struct task_struct___rt *rt = (void *)task;
	if (bpf_core_field_exists(counted->thread_info.preempt_count)) {
		count = BPF_CORE_READ(counted, thread_info.preempt_count);
	} else if (settings.preempt_count && bpf_core_field_exists(struct cfs_rq, rq)) {
		void *rq = BPF_CORE_READ(task, se.cfs_rq, rq);
		bpf_probe_read_kernel(&count, sizeof(count), rq + settings.preempt_count);
	}
	if (bpf_core_field_exists(rt->softirq_disable_cnt))
		count |= BPF_CORE_READ(rt, softirq_disable_cnt) & SERVING_SOFTIRQ;
	return count & (IN_INTERRUPT | SERVING_SOFTIRQ);
}

static __always_inline bool is_boosted(int tid)
{
	struct tek_kthread_covered *now;
	if (!settings.boosted)
		return false;
	now = bpf_map_lookup_elem(&boosted, &tid);
	return now && (now->bits[0] || now->bits[1]);
}

/* Whether a critical task waits for an ordinary thread, which then works for that task. */
static __always_inline bool is_awaited(struct member *member)
{
	struct awaited *now;
	if (entries(awaited) <= 0)
		return false;
	now = bpf_map_lookup_elem(&awaited, &member->tid);
	if (!now)
		return false;
	if (now->until && now->until < bpf_ktime_get_ns()) {
		if (!bpf_map_delete_elem(&awaited, &member->tid))
			__sync_fetch_and_add(&tallies.awaited, -1);
		return false;
	}
	member->priority = now->priority;
	member->via = true;
	return true;
}

/* Of a real-time task, by the number of the kernel, which is below 0 for SCHED_DEADLINE. */
static __always_inline __u32 rt_priority(int prio)
{
	return prio < 0 ? MAX_RT_PRIO - 1 : prio > 98 ? 1 : MAX_RT_PRIO - 1 - prio;
}

/* Whether the current task is critical, with its description. Programs call this first: an ordinary
 * task costs one comparison. A task that exits and closes its files is no member, because the event
 * for its end is sent already or follows. */
static __always_inline bool find_member(struct member *member)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	int prio = task->prio;
	if (prio >= MAX_RT_PRIO && !settings.fast && entries(running) <= 0 && entries(awaited) <= 0)
		return false;
	__u32 flags = task->flags;
	if (flags & PF_EXITING)
		return false;
	int tid = task->pid;
	member->tid = tid;
	member->process = task->tgid;
	member->priority = rt_priority(prio);
	member->via = false;
	member->is_new = false;
	/* A kernel thread, or a thread that is boosted for its dependants (storage.h). */
	if (prio < MAX_RT_PRIO && is_boosted(tid)) {
		member->via = true;
		return !interrupts(task);
	}
	if (flags & PF_KTHREAD) {
		/* The worker runs before it has its boost. Works that it queues need one too. */
		member->via = entries(running) > 0 && bpf_map_lookup_elem(&running, &tid);
		member->is_new = true;
		return member->via && !interrupts(task);
	}
	if (prio >= MAX_RT_PRIO) {
		__u32 *as_if = NULL;
		if (settings.fast)
			as_if = bpf_map_lookup_elem(&fast, &tid);
		if (!as_if)
			return is_awaited(member) && !interrupts(task);
		member->priority = *as_if;
	}
	__u32 *wanted = bpf_map_lookup_elem(&tasks, &tid);
	if (wanted && *wanted == TEK_KTHREAD_IGNORE)
		return false;
	if (interrupts(task))
		return false;
	if (!wanted) {
		__u32 reported = TEK_KTHREAD_REPORTED;
		if (bpf_map_update_elem(&tasks, &tid, &reported, BPF_NOEXIST))
			__sync_fetch_and_add(&tallies.lost[TEK_KTHREAD_EXITS], 1);
		else
			__sync_fetch_and_add(&tallies.tasks, 1);
	}
	member->is_new = !wanted || *wanted == TEK_KTHREAD_REPORTED;
	return true;
}

/* Whether the boost of a kernel thread covers members of these priorities. */
static __always_inline bool covers(int kthread, __u64 low, __u64 high)
{
	struct tek_kthread_covered *now;
	if (!settings.boosted)
		return false;
	now = bpf_map_lookup_elem(&boosted, &kthread);
	return now && !(low & ~now->bits[0]) && !(high & ~now->bits[1]);
}

static __always_inline __u64 low_bit(__u8 priority)
{
	return priority < 64 ? 1ull << priority : 0;
}

static __always_inline __u64 high_bit(__u8 priority)
{
	return priority < 64 ? 0 : 1ull << (priority & 63);
}

/* Whether userland must act at once when this member begins to wait for the thread. */
static __always_inline bool changes(const struct member *member, int kthread)
{
	return member->is_new ||
	       !covers(kthread, low_bit(member->priority), high_bit(member->priority));
}

/* The member whose request just completed on this CPU. Work that the completion queues belongs to
 * the same member. The kernel queues it in the same interrupt, right after the tracepoint. */
#define COMPLETING_NS 50000

struct completing {
	struct member member;
	__u64 until; /* ns; 0: no member */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct completing);
} completing SEC(".maps");

static __always_inline void note_completion(const struct member *member)
{
	__u32 zero = 0;
	struct completing *now = bpf_map_lookup_elem(&completing, &zero);
	if (!now)
		return;
	now->until = member ? bpf_ktime_get_ns() + COMPLETING_NS : 0;
	if (member)
		now->member = *member;
}

static __always_inline bool find_completing(struct member *member)
{
	__u32 zero = 0;
	struct completing *now = bpf_map_lookup_elem(&completing, &zero);
	if (!now || !now->until)
		return false;
	if (now->until < bpf_ktime_get_ns()) {
		now->until = 0;
		return false;
	}
	*member = now->member;
	return true;
}

/* The number of a map's inodes in each place. Programs see each page of each task. An empty place
 * shows without a map lookup that the inode of a page is not in the map. The count goes up before
 * the inode enters the map, and down after the inode leaves the map. */
#define PLACE_BITS 10

static __always_inline __u32 place_of_number(__u64 inode)
{
	return inode * 0x9e3779b97f4a7c15ull >> (64 - PLACE_BITS);
}

/* The verifier rejects multiplication of a pointer, so the inode is read as a number. */
static __always_inline __u32 place_of_inode(const __u64 *inode)
{
	__u64 number = 0;
	bpf_probe_read_kernel(&number, sizeof(number), inode);
	return place_of_number(number);
}

static __always_inline void lose(enum tek_kthread_dependency dependency)
{
	__sync_fetch_and_add(&tallies.lost[dependency], 1);
	tallies.lost_one = 1;
}

/* Reserves an event for the caller to fill in and send; NULL where the ring is full. */
static __always_inline struct tek_kthread_event *new_event(enum tek_kthread_dependency dependency,
							   enum tek_kthread_kind kind)
{
	struct tek_kthread_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		lose(dependency);
		return NULL;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	event->kind = kind;
	return event;
}

static __always_inline void fill_member(struct tek_kthread_event *event,
					const struct member *member)
{
	event->task = member->tid;
	event->process = member->process;
	event->priority = member->priority;
	event->flags = member->via ? TEK_KTHREAD_VIA : 0;
}

/* Fills in the current task as the kernel thread. */
static __always_inline void fill_current(struct tek_kthread_event *event)
{
	event->kthread = (__u32)bpf_get_current_pid_tgid();
	bpf_get_current_comm(event->name, sizeof(event->name));
}

static __always_inline void fill_thread(struct tek_kthread_event *event, struct task_struct *task)
{
	if (!task)
		return;
	event->kthread = BPF_CORE_READ(task, pid);
	BPF_CORE_READ_STR_INTO(&event->name, task, comm);
}

/* Sends the event. Userland sleeps on unless it must act, or the ring is half full. */
static __always_inline void send(struct tek_kthread_event *event, bool wake)
{
	if (tallies.lost_one && __sync_lock_test_and_set(&tallies.lost_one, 0)) {
		event->flags |= TEK_KTHREAD_LOST;
		wake = true;
	}
	if (!wake)
		wake = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > RING_BYTES / 2;
	if (wake)
		event->flags |= TEK_KTHREAD_WOKE;
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
