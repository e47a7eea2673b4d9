/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Critical tasks that sleep in futex(2), and the user threads that hold what they wait for.
 *
 * A sleep of a critical task reads the address and the value from its call, so no function of
 * futexes needs a hook. The words at that address belong to the program, which may write anything:
 * - A private lock names threads of the waiter's process only.
 * - A shared lock may name a thread of another process. Userland checks such a process.
 * - A lock without an owner's id leads to the thread that woke a waiter there last. Before a thread
 *   has done so it leads to the only other thread of the process that does not sleep.
 * A holder that sleeps for a further lock is followed. These relations begin for the holder, as a
 * member that works for the critical task. Each relation ends with the sleep.
 */
#ifndef TEK_LOCKS_H
#define TEK_LOCKS_H

#include "calls.h"

/* The number of locks that are followed from one sleep. */
#define MAX_CHAIN 4
/* The number of threads of a process that are checked where threads cannot be found by id. */
#define MAX_THREADS 128
/* The number of threads of a process in which one that does not sleep is looked for. */
#define MAX_AWAKE 32

/* <linux/futex.h>: the word of a robust lock is its owner's id with such bits. */
#define FUTEX_WAITERS 0x80000000
#define FUTEX_TID_MASK 0x3fffffff

/* A sleep for a lock. */
struct lock_wait {
	__u64 lock;
	struct member member;
	int holder;
};

/* tid of a task that sleeps for a lock -> the lock and its holder */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, int);
	__type(value, struct lock_wait);
} lock_waits SEC(".maps");

/* A word for which a critical task has slept. */
struct word {
	__u64 mm;
	__u64 address;
};

/* word -> tid of the thread that woke a waiter there last; 0: none yet */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct word);
	__type(value, int);
} wakers SEC(".maps");

/* A thread that may hold a lock. */
struct holder {
	int tid; /* 0: there is no such thread */
	int process;
	int prio;
	__u64 cleared; /* the address of the word that pthread_join() waits for */
	bool waits;    /* it sleeps in futex(2) itself: */
	struct call call;
	char name[TEK_KTHREAD_NAME_BYTES];
};

static __always_inline void describe(struct task_struct *task, struct holder *holder)
{
	holder->tid = BPF_CORE_READ(task, pid);
	holder->process = BPF_CORE_READ(task, tgid);
	holder->prio = BPF_CORE_READ(task, prio);
	holder->cleared = (__u64)BPF_CORE_READ(task, clear_child_tid);
	BPF_CORE_READ_STR_INTO(&holder->name, task, comm);
}

/* The id of a task in the namespace of this depth. */
static __always_inline int id_at(struct task_struct *task, __u32 level)
{
	int id = 0;
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	if (!level)
		return BPF_CORE_READ(task, pid);
	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&id, sizeof(id),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid));
	return id;
}

/* Finds a thread of the task's own process. */
static __always_inline void walk_threads(struct task_struct *task, int id, __u32 level,
					 struct holder *holder)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	__u64 end = (__u64)signal + bpf_core_field_offset(struct signal_struct, thread_head);
	struct list_head *at = BPF_CORE_READ(signal, thread_head.next);
	for (int i = 0; i < MAX_THREADS && at && (__u64)at != end; i++) {
		struct task_struct *other = (void *)at -
					    bpf_core_field_offset(struct task_struct, thread_node);
		if (id_at(other, level) == id) {
			describe(other, holder);
			return;
		}
		at = BPF_CORE_READ(other, thread_node.next);
	}
}

static __always_inline void describe_and_release(struct task_struct *task, struct holder *holder)
{
	describe(task, holder);
	if (sleeps_for_a_call(task)) {
		read_call(task, &holder->call);
		holder->waits = waits_for_futex(&holder->call);
	}
	bpf_task_release(task);
}

/* Finds a thread by its id in the namespace of `task`, which is the current task. Where the kernel
 * has no function for this, only threads of the task's process are found, without their calls. */
static __always_inline void find_thread(struct task_struct *task, int id, struct holder *holder)
{
	__u32 level = BPF_CORE_READ(task, thread_pid, level);
	struct task_struct *found;
	holder->tid = 0;
	holder->waits = false;
	if (&bpf_task_from_vpid && &bpf_task_release)
		found = bpf_task_from_vpid(id);
	else if (!level && &bpf_task_from_pid && &bpf_task_release)
		found = bpf_task_from_pid(id);
	else
		return walk_threads(task, id, level, holder);
	if (found)
		describe_and_release(found, holder);
}

/* The same by the id that events contain. */
static __always_inline void find_by_tid(struct task_struct *task, int tid, struct holder *holder)
{
	struct task_struct *found;
	holder->tid = 0;
	holder->waits = false;
	if (!&bpf_task_from_pid || !&bpf_task_release)
		return walk_threads(task, tid, 0, holder);
	found = bpf_task_from_pid(tid);
	if (found)
		describe_and_release(found, holder);
}

/* The C library's locks around a word, from 12 bytes before it to 20 bytes after it. */
#define WORDS_BEFORE 3
#define WORDS 8

/* pthread_mutex_t of the GNU C library: the word, a count, the owner, the users, the kind. */
#define MUTEX_CONTENDED 2
#define MUTEX_KINDS 0x3df /* the bits of a kind, without that of a lock with inheritance */

/* Its pthread_rwlock_t: readers and writers, then two words that threads sleep for. */
#define RWLOCK_WRITTEN 3 /* the value of a word while a writer holds the lock */
#define RWLOCK_PHASE 1   /* bits of readers: writers have the lock, */
#define RWLOCK_LOCKED 2  /* and one holds it */

/* The id that the lock at a word of this value names as its owner; 0: none. */
static __always_inline int named_owner(__u64 address, __u32 value)
{
	__u32 at[WORDS] = {};
	if (value & FUTEX_WAITERS)
		return value & FUTEX_TID_MASK;
	if (value == MUTEX_CONTENDED) {
		if (bpf_probe_read_user(at, 5 * sizeof(*at), (void *)address) ||
		    at[4] & ~MUTEX_KINDS)
			return 0;
		return at[2];
	}
	if (value != RWLOCK_WRITTEN ||
	    bpf_probe_read_user(at, sizeof(at), (void *)address - WORDS_BEFORE * sizeof(*at)))
		return 0;
	/* The word for the phase comes first, then the word for writers. */
	if ((at[1] & (RWLOCK_PHASE | RWLOCK_LOCKED)) == (RWLOCK_PHASE | RWLOCK_LOCKED) && at[7])
		return at[7];
	return at[0] & RWLOCK_LOCKED ? at[6] : 0;
}

/* Whether the holder may be reported; *flags gets TEK_KTHREAD_FOREIGN. */
static __always_inline bool is_plausible(const struct member *member, const struct holder *holder,
					 bool shared, __u8 *flags)
{
	if (!holder->tid || holder->tid == member->tid)
		return false;
	if (holder->process == member->process)
		return true;
	*flags = TEK_KTHREAD_FOREIGN;
	return shared;
}

/* Whether threads of other processes cannot be found. */
static __always_inline bool finds_own_only(struct task_struct *task)
{
	if (&bpf_task_from_pid)
		return false;
	return !BPF_CORE_READ(task, thread_pid, level);
}

/* Finds the only other thread of the task's process that does not sleep. The holder of a lock most
 * often uses a CPU, or waits for one. */
static __always_inline bool find_awake(struct task_struct *task, struct holder *holder)
{
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	__u64 end = (__u64)signal + bpf_core_field_offset(struct signal_struct, thread_head);
	struct list_head *at = BPF_CORE_READ(signal, thread_head.next);
	struct task_struct *awake = NULL;
	for (int i = 0; i < MAX_AWAKE && at; i++) {
		if ((__u64)at == end)
			break;
		struct task_struct *other = (void *)at -
					    bpf_core_field_offset(struct task_struct, thread_node);
		if (other != task && BPF_CORE_READ(other, __state) == TASK_RUNNING) {
			if (awake)
				return false;
			awake = other;
		}
		at = BPF_CORE_READ(other, thread_node.next);
	}
	if (!awake || (__u64)at != end)
		return false;
	describe(awake, holder);
	holder->waits = false;
	return true;
}

static __always_inline bool guess_holder(struct task_struct *task, const struct member *member,
					 __u64 address, struct holder *holder, __u8 *flags)
{
	struct word word = {.mm = (__u64)task->mm, .address = address};
	int none = 0, *waker = bpf_map_lookup_elem(&wakers, &word);
	if (!waker) {
		bpf_map_update_elem(&wakers, &word, &none, BPF_NOEXIST);
		tallies.wakers = 1;
	}
	if (waker && *waker)
		find_by_tid(task, *waker, holder);
	else if (!find_awake(task, holder))
		return false;
	*flags = 0;
	if (!is_plausible(member, holder, false, flags))
		return false;
	*flags = TEK_KTHREAD_GUESSED;
	return true;
}

/* Whether a word with this value may be a lock that a thread holds and others wait for: 2 in locks
 * of Rust, of Go and of the C library's own, this bit in those of musl. A word of a condition
 * variable or a semaphore has another value, and the thread that wakes its waiter holds nothing. */
static __always_inline bool may_be_held(__u32 value)
{
	return value == MUTEX_CONTENDED || value & FUTEX_WAITERS;
}

/* Finds the thread that releases what the member sleeps for. `task` is the current task, a thread
 * of the member's process. */
static __always_inline bool find_holder(struct task_struct *task, const struct member *member,
					const struct call *call, struct holder *holder, __u8 *flags)
{
	__u32 value = call->third, now;
	bool shared = !(call->second & FUTEX_PRIVATE);
	/* A word with another value was changed, and the change wakes the member. */
	if (bpf_probe_read_user(&now, sizeof(now), (void *)call->first) || now != value)
		return false;
	int owner = named_owner(call->first, value);
	if (owner > 0) {
		find_thread(task, owner, holder);
		if (is_plausible(member, holder, shared, flags))
			return true;
		if (!holder->tid && shared && finds_own_only(task) && owner != member->tid) {
			holder->tid = owner;
			holder->process = 0;
			holder->name[0] = 0;
			*flags = TEK_KTHREAD_FOREIGN;
			return true;
		}
	} else if (shared && value) {
		/* The kernel clears the word of a thread that ends. */
		find_thread(task, value, holder);
		*flags = 0;
		if (holder->cleared == call->first && is_plausible(member, holder, false, flags))
			return true;
	}
	return may_be_held(value) && guess_holder(task, member, call->first, holder, flags);
}

static __always_inline void end_lock(int tid)
{
	struct lock_wait *found = bpf_map_lookup_elem(&lock_waits, &tid);
	if (!found)
		return;
	struct lock_wait wait = *found;
	if (bpf_map_delete_elem(&lock_waits, &tid))
		return;
	__sync_fetch_and_add(&tallies.lock_waits, -1);
	end_awaited(wait.holder, tid);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_LOCKS, TEK_KTHREAD_LOCK_ENDED);
	if (!event)
		return;
	event->thing = wait.lock;
	event->kthread = wait.holder;
	fill_member(event, &wait.member);
	/* The holder must lose its boost as soon as it has released the lock. */
	send(event, is_boosted(wait.holder));
}

/* Returns whether this sleep is a new one. */
static __always_inline bool begin_lock(const struct member *member, __u64 lock,
				       const struct holder *holder, __u8 flags)
{
	struct lock_wait wait = {.lock = lock, .member = *member, .holder = holder->tid};
	if (bpf_map_update_elem(&lock_waits, &member->tid, &wait, BPF_NOEXIST)) {
		if (!bpf_map_lookup_elem(&lock_waits, &member->tid))
			lose(TEK_KTHREAD_LOCKS);
		return false;
	}
	__sync_fetch_and_add(&tallies.lock_waits, 1);
	begin_awaited(holder->tid, member, 0);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_LOCKS, TEK_KTHREAD_LOCK_AWAITED);
	if (!event)
		return true;
	event->thing = lock;
	event->second = holder->process;
	event->kthread = holder->tid;
	__builtin_memcpy(event->name, holder->name, sizeof(event->name));
	fill_member(event, member);
	event->flags |= flags;
	send(event, changes(member, holder->tid));
	return true;
}

/* Ends the relation of a member that was woken on another CPU before the relation began. */
static __always_inline void settle_lock(struct task_struct *task, int tid)
{
	struct holder now = {};
	find_by_tid(task, tid, &now);
	if (!now.waits)
		end_lock(tid);
}

/* Goes on to the holder, which waits too. One that is critical by itself needs its own relation,
 * because its wait can last longer than that of the member. */
static __always_inline void go_on(struct member *member, const struct holder *holder)
{
	int tid = holder->tid;
	__u32 *as_if = NULL;
	member->tid = tid;
	member->is_new = false;
	member->via = true;
	if (holder->prio < MAX_RT_PRIO) {
		if (is_boosted(tid))
			return;
		member->priority = rt_priority(holder->prio);
		member->via = false;
		return;
	}
	if (settings.fast)
		as_if = bpf_map_lookup_elem(&fast, &tid);
	if (as_if) {
		member->priority = *as_if;
		member->via = false;
	}
}

static __always_inline void begin_locks(struct task_struct *task)
{
	struct member member = {};
	struct holder holder = {};
	struct call call;
	if (!sleeps_for_a_call(task) || !find_member(&member))
		return;
	read_call(task, &call);
	if (!waits_for_futex(&call))
		return;
	for (int i = 0; i < MAX_CHAIN; i++) {
		__u8 flags = 0;
		if (!find_holder(task, &member, &call, &holder, &flags) ||
		    !begin_lock(&member, call.first, &holder, flags))
			return;
		if (i > 0)
			settle_lock(task, member.tid);
		if (flags & TEK_KTHREAD_FOREIGN || !holder.waits)
			return;
		call = holder.call;
		go_on(&member, &holder);
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(lock_slept, bool preempted, struct task_struct *from, struct task_struct *to)
{
	/* A task that was woken at the moment at which it fell asleep has no later wake-up. */
	if (entries(lock_waits) > 0)
		end_lock(to->pid);
	if (!preempted)
		begin_locks(from);
	return 0;
}

/* Records that the current task wakes a waiter, if a critical task has slept for the same word. */
static __always_inline void note_waker(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct call call;
	if (task->flags & PF_KTHREAD)
		return;
	read_call(task, &call);
	__u32 command = call.second & FUTEX_COMMAND;
	if (call.number != CALL_FUTEX ||
	    (command != FUTEX_WAKE && command != FUTEX_WAKE_BITSET && command != FUTEX_WAKE_OP &&
	     command != FUTEX_REQUEUE && command != FUTEX_CMP_REQUEUE))
		return;
	struct word word = {.mm = (__u64)task->mm, .address = call.first};
	int *waker = bpf_map_lookup_elem(&wakers, &word);
	if (waker && *waker != task->pid && !interrupts(task))
		*waker = task->pid;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(lock_woken, struct task_struct *task)
{
	if (entries(lock_waits) > 0)
		end_lock(task->pid);
	if (tallies.wakers)
		note_waker();
	return 0;
}

#endif
