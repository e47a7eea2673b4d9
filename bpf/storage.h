/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Critical tasks that sleep inside the kernel, and the threads that work for storage meanwhile.
 *
 * Such a task seldom waits for its own works and requests alone. A commit of the journal waits for
 * other tasks' transactions. A flush of the disk waits for the previous flush, and a page for the
 * thread that writes it. No event names the task then. During an uninterruptible sleep these
 * threads are reported:
 * - workers with a work of a queue that frees memory (WQ_MEM_RECLAIM): all queues between a file
 *   and its disk must have that mark,
 * - threads of file systems and disks, and threads that move pages of tasks,
 * - threads that complete requests,
 * - ordinary threads that lost their CPU inside a transaction, or were woken inside the kernel and
 *   have no CPU yet.
 * The programs record them before the task sleeps, because a starved thread received its work
 * earlier.
 */
#ifndef TEK_STORAGE_H
#define TEK_STORAGE_H

#include "common.h"

/* The number of busy workers of a pool that are checked. */
#define MAX_AHEAD 8
/* The number of workers of a pool that are checked for one that may take a work. */
#define MAX_WORKERS 16
/* The number of works, and of threads, that are checked when a task begins to sleep. */
#define MAX_AWAITED 32
/* A work that waits longer was cancelled; some kernels do not report that. */
#define CANCELLED_NS 2000000000ull

/* tid of a critical task that sleeps -> the description of the task */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct member);
} waiting SEC(".maps");

/* A work for storage that no worker has begun, queued by any task. */
struct pending {
	__u64 pool;
	__u64 since; /* ns */
};

/* work -> its pool and time */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct pending);
} pending SEC(".maps");

/* A thread that works for storage. */
struct busy {
	char name[TEK_KTHREAD_NAME_BYTES];
	int process; /* of an ordinary thread; 0: the thread is a kernel thread */
};

/* tid of a busy thread -> its description */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, int);
	__type(value, struct busy);
} busy SEC(".maps");

static __always_inline void report_awaited(const struct member *member, int tid, int process,
					   const char *name)
{
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_STORAGE,
						    TEK_KTHREAD_STORAGE_AWAITED);
	if (!event)
		return;
	event->thing = member->tid;
	event->second = process;
	event->kthread = tid;
	__builtin_memcpy(event->name, name, sizeof(event->name));
	fill_member(event, member);
	send(event, changes(member, tid));
}

static __always_inline void report_task_awaited(const struct member *member,
						struct task_struct *task)
{
	char name[TEK_KTHREAD_NAME_BYTES] = {};
	if (!task)
		return;
	BPF_CORE_READ_STR_INTO(&name, task, comm);
	report_awaited(member, BPF_CORE_READ(task, pid), 0, name);
}

/* The worker that the kernel wakes for a new work; NULL where no worker is idle. */
static __always_inline struct task_struct *first_idle(struct worker_pool *pool)
{
	struct list_head *first = BPF_CORE_READ(pool, idle_list.next);
	if ((__u64)first == (__u64)pool + bpf_core_field_offset(struct worker_pool, idle_list))
		return NULL;
	struct worker *worker = (void *)first - bpf_core_field_offset(struct worker, entry);
	return BPF_CORE_READ(worker, task);
}

/* Reports all threads that must run before a work of this pool is done: the worker that is woken,
 * and busy workers as in tell_ahead(). If all are busy, kthreadd creates a worker. A worker that is
 * about to take the work is not idle any more. Nor is a worker that took the work and lost its CPU
 * before the work began. */
static __always_inline void await_pool(struct worker_pool *pool, const struct member *member)
{
	struct task_struct *idle = first_idle(pool);
	if (idle)
		report_task_awaited(member, idle);
	else
		report_awaited(member, KTHREADD, 0, "kthreadd\0\0\0\0\0\0\0");
	bool one_runs = BPF_CORE_READ(pool, nr_running) > 0;
	__u64 end = (__u64)pool + bpf_core_field_offset(struct worker_pool, workers);
	struct list_head *at = BPF_CORE_READ(pool, workers.next);
	for (int i = 0; i < MAX_WORKERS && at && (__u64)at != end; i++) {
		struct worker *worker = (void *)at - bpf_core_field_offset(struct worker, node);
		__u64 work = (__u64)BPF_CORE_READ(worker, current_work);
		bool takes;
		at = BPF_CORE_READ(worker, node.next);
		if (work)
			takes = !idle || (one_runs && !BPF_CORE_READ(worker, sleeping)) ||
				bpf_map_lookup_elem(&pending, &work);
		else
			takes = !(BPF_CORE_READ(worker, flags) & WORKER_IDLE);
		if (takes)
			report_task_awaited(member, BPF_CORE_READ(worker, task));
	}
}

/* The context of a walk over all threads for one task. */
struct for_task {
	struct member member;
	int count;
	__u64 pools[2]; /* of the last works that were checked */
};

static long await_busy(void *map, const int *tid, struct busy *busy, struct for_task *task)
{
	report_awaited(&task->member, *tid, busy->process, busy->name);
	return ++task->count >= MAX_AWAITED;
}

static long await_pending(void *map, const __u64 *work, struct pending *pending,
			  struct for_task *task)
{
	if (pending->since + CANCELLED_NS < bpf_ktime_get_ns() || pending->pool == task->pools[0] ||
	    pending->pool == task->pools[1])
		return 0;
	task->pools[1] = task->pools[0];
	task->pools[0] = pending->pool;
	await_pool((void *)pending->pool, &task->member);
	return ++task->count >= MAX_AWAITED;
}

static long await_completer(void *map, const struct place *place, struct completer *completer,
			    struct for_task *task)
{
	if (completer->tid)
		report_awaited(&task->member, completer->tid, 0, completer->name);
	return ++task->count >= MAX_AWAITED;
}

/* The context of a walk over all tasks for one thread. */
struct for_thread {
	int tid;
	struct busy busy;
};

static long await_thread(void *map, const int *tid, struct member *member,
			 struct for_thread *thread)
{
	report_awaited(member, thread->tid, thread->busy.process, thread->busy.name);
	return 0;
}

struct for_pool {
	__u64 pool;
};

static long await_one_pool(void *map, const int *tid, struct member *member, struct for_pool *pool)
{
	await_pool((void *)pool->pool, member);
	return 0;
}

/* Linux 6.1 rejects a call whose map is one of several. Compilers merge several calls of one
 * function into such a call, so each has a function of its own. */
#define EACH(name, map, callback, type) \
	static __attribute__((noinline)) long name(struct type *context) \
	{ \
		return bpf_for_each_map_elem(&map, callback, context, 0); \
	}

EACH(all_busy, busy, await_busy, for_task)
EACH(all_pending, pending, await_pending, for_task)
EACH(all_completers, completers, await_completer, for_task)
EACH(thread_for_all_tasks, waiting, await_thread, for_thread)
EACH(pool_for_all_tasks, waiting, await_one_pool, for_pool)

static __always_inline bool is_critical_there(void)
{
	return tallies.tasks + settings.tasks > 0 || settings.fast;
}

/* The thread works for storage from now on. */
static __always_inline void become_busy(struct task_struct *task)
{
	struct for_thread thread = {.tid = task->pid};
	if (!(task->flags & PF_KTHREAD))
		thread.busy.process = task->tgid;
	BPF_CORE_READ_STR_INTO(&thread.busy.name, task, comm);
	if (bpf_map_update_elem(&busy, &thread.tid, &thread.busy, BPF_NOEXIST))
		return;
	__sync_fetch_and_add(&tallies.busy, 1);
	if (entries(waiting) > 0)
		thread_for_all_tasks(&thread);
}

/* The thread has done its work for storage. */
static __always_inline void become_idle(int tid)
{
	if (entries(busy) <= 0 || bpf_map_delete_elem(&busy, &tid))
		return;
	__sync_fetch_and_add(&tallies.busy, -1);
	if (entries(waiting) <= 0)
		return;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_STORAGE, TEK_KTHREAD_STORAGE_DONE);
	if (!event)
		return;
	event->kthread = tid;
	send(event, false);
}

/* The first four letters of a name as a little-endian number. */
#define LETTERS(a, b, c, d) ((__u32)(a) | (b) << 8 | (c) << 16 | (__u32)(d) << 24)

static __always_inline __u32 beginning_of(const char *name)
{
	__u32 begin = 0;
	bpf_probe_read_kernel(&begin, sizeof(begin), name);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	begin = __builtin_bswap32(begin);
#endif
	return begin;
}

/* The queues of loop devices lack WQ_MEM_RECLAIM. */
static __always_inline bool is_for_storage(struct workqueue_struct *queue)
{
	return BPF_CORE_READ(queue, flags) & WQ_MEM_RECLAIM ||
	       beginning_of((void *)queue + bpf_core_field_offset(struct workqueue_struct, name)) ==
		       LETTERS('l', 'o', 'o', 'p');
}

/* workers.h calls these for each work that is queued, begins, ends or is cancelled. */
static __always_inline void storage_queued(struct pool_workqueue *pwq, struct work_struct *work)
{
	if (!is_critical_there() || !is_for_storage(BPF_CORE_READ(pwq, wq)))
		return;
	__u64 key = (__u64)work;
	struct for_pool pool = {.pool = (__u64)BPF_CORE_READ(pwq, pool)};
	struct pending now = {.pool = pool.pool, .since = bpf_ktime_get_ns()};
	bpf_map_update_elem(&pending, &key, &now, BPF_ANY);
	tallies.pending = 1;
	if (entries(waiting) > 0)
		pool_for_all_tasks(&pool);
}

/* Whether a critical task sleeps and may wait for the work. */
static __always_inline bool storage_started(struct work_struct *work)
{
	__u64 key = (__u64)work;
	if (!tallies.pending || bpf_map_delete_elem(&pending, &key))
		return false;
	become_busy((void *)bpf_get_current_task_btf());
	return entries(waiting) > 0;
}

static __always_inline void storage_ended(void)
{
	become_idle((__u32)bpf_get_current_pid_tgid());
}

static __always_inline void storage_cancelled(struct work_struct *work)
{
	__u64 key = (__u64)work;
	if (tallies.pending)
		bpf_map_delete_elem(&pending, &key);
}

/* Whether tasks may wait for the thread: it belongs to a file system or a disk, or it moves pages
 * of tasks (khugepaged, kcompactd). This compares only the beginning of the name. tekd checks the
 * full name and ignores unknown threads. */
static __always_inline bool serves_storage(struct task_struct *task)
{
	if ((task->flags & (PF_KTHREAD | PF_WQ_WORKER)) != PF_KTHREAD)
		return false;
	__u32 begin = beginning_of(task->comm);
	return begin == LETTERS('j', 'b', 'd', '2') || begin == LETTERS('x', 'f', 's', 'a') ||
	       begin == LETTERS('b', 't', 'r', 'f') || begin == LETTERS('f', '2', 'f', 's') ||
	       begin == LETTERS('d', 'm', 'c', 'r') || begin == LETTERS('l', 'o', 'o', 'p') ||
	       begin == LETTERS('k', 'h', 'u', 'g') || begin == LETTERS('k', 'c', 'o', 'm') ||
	       begin == LETTERS('u', 's', 'b', '-') || (begin & 0xffff) == ('m' | 'd' << 8);
}

static __always_inline bool is_ordinary(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && task->prio >= MAX_RT_PRIO;
}

/* Whether a thread is inside a transaction, or holds something that reclaim may need. */
static __always_inline bool is_in_transaction(struct task_struct *task)
{
	return task->flags & PF_MEMALLOC_NOFS || task->journal_info;
}

static __always_inline void begin_wait(struct task_struct *task)
{
	struct for_task its = {};
	__u32 state = task->__state;
	if (!(state & TASK_UNINTERRUPTIBLE) || state & TASK_NOLOAD || task->flags & PF_KTHREAD ||
	    !find_member(&its.member))
		return;
	int tid = its.member.tid;
	if (its.member.via || bpf_map_update_elem(&waiting, &tid, &its.member, BPF_NOEXIST))
		return;
	__sync_fetch_and_add(&tallies.waiting, 1);
	if (entries(busy) > 0)
		all_busy(&its);
	its.count = 0;
	if (tallies.pending)
		all_pending(&its);
	its.count = 0;
	all_completers(&its);
}

static __always_inline void end_wait(struct task_struct *task)
{
	int tid = task->pid;
	struct member *found = bpf_map_lookup_elem(&waiting, &tid);
	if (!found)
		return;
	struct member member = *found;
	if (bpf_map_delete_elem(&waiting, &tid))
		return;
	__sync_fetch_and_add(&tallies.waiting, -1);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_STORAGE, TEK_KTHREAD_STORAGE_ENDED);
	if (!event)
		return;
	event->thing = tid;
	fill_member(event, &member);
	send(event, false);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(task_switched, bool preempted, struct task_struct *from, struct task_struct *to)
{
	if (entries(waiting) > 0)
		end_wait(to);
	if (!is_critical_there())
		return 0;
	if (serves_storage(to))
		become_busy(to);
	__u32 state = preempted ? TASK_RUNNING : from->__state;
	if (serves_storage(from)) {
		if (state & TASK_INTERRUPTIBLE || state & TASK_NOLOAD)
			become_idle(from->pid);
		return 0;
	}
	if (from->flags & PF_KTHREAD)
		return 0;
	if (state != TASK_RUNNING)
		begin_wait(from);
	else if (is_ordinary(from) && is_in_transaction(from))
		become_busy(from);
	/* A thread that is preempted inside the kernel may still hold a lock since its wake-up. */
	if (!preempted && !is_in_transaction(from))
		become_idle(from->pid);
	return 0;
}

/* A thread that completes requests (of loop devices, memory cards, USB disks) leaves their ends to
 * a softirq and wakes ksoftirqd. ksoftirqd stays ordinary where RCU's threads are (safe_order.rs).
 * Otherwise the next interrupt runs the softirq, at the latest the tick. An event that wakes
 * userland makes the kernel interrupt this CPU at once (irq_work). */
SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raised, unsigned int which)
{
	if (which != BLOCK_SOFTIRQ || entries(waiting) <= 0 ||
	    interrupts((void *)bpf_get_current_task_btf()))
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_STORAGE,
						    TEK_KTHREAD_STORAGE_RAISED);
	if (event)
		send(event, true);
	return 0;
}

/* Other threads may do all the work that a task waits for, so that no other event names the task.
 * After a rename, for example, the journal's thread does the rest. The task's first access to a
 * block of the file system reports it here. */
SEC("tp_btf/block_touch_buffer")
int BPF_PROG(buffer_touched)
{
	struct member member = {};
	if (!find_member(&member) || !member.is_new || member.via)
		return 0;
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_STORAGE, TEK_KTHREAD_STORAGE_USED);
	if (!event)
		return 0;
	event->thing = member.tid;
	fill_member(event, &member);
	send(event, true);
	return 0;
}

/* A starved thread is woken long before it runs. An ordinary thread that slept inside the kernel
 * may hold a lock there, or must wake the next waiter. */
SEC("tp_btf/sched_waking")
int BPF_PROG(thread_woken, struct task_struct *task)
{
	if (!is_critical_there())
		return 0;
	if (serves_storage(task) || (is_ordinary(task) && (task->__state & TASK_UNINTERRUPTIBLE ||
							   is_in_transaction(task))))
		become_busy(task);
	return 0;
}

#endif
