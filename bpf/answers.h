/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Critical tasks that send something and then sleep, and the user threads that receive it.
 *
 * The receiver is the thread that the send woke. A send that wakes no thread, because the receiver
 * is awake already and has no CPU, leads to the thread that received from the same object last:
 * a pipe, a UNIX socket, an eventfd, or a message queue (objects.h). The programs record receivers
 * only for objects to which a critical task has sent. Kernels without hooks of functions show no
 * writes to pipes: there a count of writes leads to the thread that the task's last write woke.
 *
 * A relation begins when the sender sleeps until something happens outside the kernel, and ends
 * when it is woken. Its next sleep begins the relation again, if it sent a short time ago. This is
 * a guess after the receiver or its process has woken it: that may have been the answer, or a
 * signal of a bus daemon. A receiver that sends to a further thread and sleeps meanwhile is itself
 * a member, so that a request is followed through a bus daemon.
 */
#ifndef TEK_ANSWERS_H
#define TEK_ANSWERS_H

#include "calls.h"

/* The number of sends of a task that await an answer. */
#define MAX_SENT 4
/* A first sleep that begins later after a send has another cause, */
#define FIRST_NS 1000000000
/* and so has a further sleep. */
#define SENT_NS 100000000
/* A wake-up that comes later after the hook of a send has another cause. */
#define SENDING_NS 10000000

/* Something that a task has sent. */
struct sent {
	__u64 object; /* 0: not known */
	__u64 time;   /* ns; 0: this is free */
	int receiver; /* 0: not known */
	int process;
	int reported; /* the receiver of the relation that has begun; 0: none */
	bool guessed;
	bool begun; /* a relation has begun since the send */
	__u8 spare[2];
	char name[TEK_KTHREAD_NAME_BYTES]; /* of the receiver */
};

/* The thread that received from an object last. */
struct receiver {
	int tid; /* 0: none yet */
	int process;
	char name[TEK_KTHREAD_NAME_BYTES];
};

struct sends {
	struct member member;
	__u32 last; /* the index of the last send */
	struct sent sent[MAX_SENT];
	struct receiver writer; /* the thread that a write(2) woke last, or that woke the task so */
	__u64 writes;           /* the number of calls of write(2) at the last sleep, */
	__u64 slept;            /* and its time in ns */
};

/* tid of a critical task -> what it has sent */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, int);
	__type(value, struct sends);
} sends SEC(".maps");

/* object to which a critical task has sent -> its last receiver */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct receiver);
} inboxes SEC(".maps");

/* Whether another thread can receive what this call sends. */
static __always_inline bool is_send(const struct call *call)
{
	switch (call->number) {
	case CALL_WRITE:
	case CALL_WRITEV:
	case CALL_PWRITEV2:
	case CALL_SENDTO:
	case CALL_SENDMSG:
	case CALL_SENDMMSG:
	case CALL_CONNECT:
	case CALL_MSGSND:
	case CALL_MQ_SEND:
	case CALL_SPLICE:
	case CALL_SENDFILE:
	case CALL_IO_URING_ENTER:
		return true;
	}
	return false;
}

/* Whether the kernel counts the call as a write. */
static __always_inline bool writes(const struct call *call)
{
	return call->number == CALL_WRITE || call->number == CALL_WRITEV;
}

/* Whether a task that sleeps in this call sleeps until it can receive something. */
static __always_inline bool is_receive(const struct call *call)
{
	switch (call->number) {
	case CALL_READ:
	case CALL_READV:
	case CALL_PREADV2:
	case CALL_POLL:
	case CALL_PPOLL:
	case CALL_SELECT:
	case CALL_PSELECT:
	case CALL_EPOLL_WAIT:
	case CALL_EPOLL_PWAIT:
	case CALL_EPOLL_PWAIT2:
	case CALL_RECVFROM:
	case CALL_RECVMSG:
	case CALL_RECVMMSG:
	case CALL_ACCEPT:
	case CALL_ACCEPT4:
	case CALL_MSGRCV:
	case CALL_MQ_RECEIVE:
	case CALL_SPLICE:
	case CALL_SENDFILE:
	case CALL_IO_URING_ENTER:
		return true;
	}
	return false;
}

/* Whether a task that sleeps in this call may sleep until its answer comes. A full object makes a
 * sender sleep too. */
static __always_inline bool may_await(const struct call *call)
{
	return is_receive(call) || is_send(call) || call->number == CALL_FUTEX_WAITV ||
	       waits_for_futex(call);
}

static __always_inline struct sends *sends_of(const struct member *member)
{
	struct sends none = {.member = *member};
	struct sends *found = bpf_map_lookup_elem(&sends, &member->tid);
	if (found)
		return found;
	if (bpf_map_update_elem(&sends, &member->tid, &none, BPF_NOEXIST))
		lose(TEK_KTHREAD_ANSWERS);
	else
		__sync_fetch_and_add(&tallies.sends, 1);
	return bpf_map_lookup_elem(&sends, &member->tid);
}

static __always_inline void forget_sends(int tid)
{
	if (!bpf_map_delete_elem(&sends, &tid))
		__sync_fetch_and_add(&tallies.sends, -1);
}

static __always_inline void note_writer(struct receiver *writer, struct task_struct *task)
{
	writer->tid = task->pid;
	writer->process = task->tgid;
	BPF_CORE_READ_STR_INTO(&writer->name, task, comm);
}

/* The place for a new send: that of an earlier send to the same object or receiver, a free one, or
 * the oldest. */
static __always_inline struct sent *place_for(struct sends *sends, __u64 object, int receiver)
{
	__u32 best = (sends->last + 1) % MAX_SENT;
	for (__u32 i = 0; i < MAX_SENT; i++) {
		if (!sends->sent[i].time)
			best = i;
	}
	for (__u32 i = 0; i < MAX_SENT; i++) {
		if (sends->sent[i].time && ((object && sends->sent[i].object == object) ||
					    (receiver && sends->sent[i].receiver == receiver)))
			best = i;
	}
	sends->last = best;
	return &sends->sent[best % MAX_SENT];
}

/* The current task sends to this object. */
static __always_inline int note_send(__u64 object)
{
	struct member member = {};
	struct receiver none = {};
	if (!object || !find_member(&member))
		return 0;
	struct sends *mine = sends_of(&member);
	if (!mine)
		return 0;
	if (!bpf_map_lookup_elem(&inboxes, &object)) {
		bpf_map_update_elem(&inboxes, &object, &none, BPF_NOEXIST);
		tallies.inboxes = 1;
	}
	struct sent *sent = place_for(mine, object, 0);
	__u64 now = bpf_ktime_get_ns();
	if (sent->object != object || sent->guessed || sent->time + SENT_NS < now)
		*sent = (struct sent){.object = object};
	sent->time = now;
	sent->begun = false;
	return 0;
}

/* The current task receives from this object. */
static __always_inline int note_receiver(__u64 object)
{
	if (!tallies.inboxes || !object)
		return 0;
	struct receiver *last = bpf_map_lookup_elem(&inboxes, &object);
	if (!last)
		return 0;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	if (last->tid == task->pid)
		return 0;
	last->tid = task->pid;
	last->process = task->tgid;
	bpf_get_current_comm(last->name, sizeof(last->name));
	return 0;
}

/* The relation of a task with one receiver ends, with its answer or without. */
static __always_inline void end_answer(const struct member *member, struct sent *sent,
				       bool answered)
{
	int receiver = sent->reported;
	if (!receiver || !__sync_bool_compare_and_swap(&sent->reported, receiver, 0))
		return;
	/* The receiver wakes the task when it takes what was sent. It may send to a further thread
	 * before the task sleeps again. */
	if (answered)
		end_awaited(receiver, member->tid);
	else
		defer_awaited(receiver, member->tid, bpf_ktime_get_ns() + SENT_NS);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_ANSWERS, TEK_KTHREAD_ANSWER_ENDED);
	if (!event)
		return;
	event->thing = (__u64)member->tid << 32 | receiver;
	event->kthread = receiver;
	fill_member(event, member);
	/* The receiver must lose its boost as soon as it has answered. */
	send(event, answered && is_boosted(receiver));
}

/* The task was woken by this waker; NULL: it is not known by which. Returns whether that was an
 * answer. */
static __always_inline bool end_answers(int tid, struct task_struct *waker)
{
	struct sends *mine = bpf_map_lookup_elem(&sends, &tid);
	bool any = false;
	int thread = 0, process = 0;
	struct call call;
	if (!mine)
		return false;
	if (waker && !(waker->flags & PF_KTHREAD)) {
		read_call(waker, &call);
		if (is_send(&call) && !interrupts(waker)) {
			thread = waker->pid;
			/* Threads of one process wake each other for many reasons. */
			if (waker->tgid != mine->member.process)
				process = waker->tgid;
			if (settings.counts_writes && writes(&call))
				note_writer(&mine->writer, waker);
		}
	}
	for (__u32 i = 0; i < MAX_SENT; i++) {
		struct sent *sent = &mine->sent[i];
		bool answered = thread && sent->time &&
				(sent->receiver == thread || (process && sent->process == process));
		/* The receiver may have sent something else: a bus daemon's signal, for example. */
		sent->guessed |= answered;
		end_answer(&mine->member, sent, answered);
		any |= answered;
	}
	return any;
}

/* Whether a thread of this process has this id, as far as the kernel lets programs know. */
static __always_inline bool exists(int tid, int process)
{
	if (!&bpf_task_from_pid || !&bpf_task_release)
		return true;
	struct task_struct *task = bpf_task_from_pid(tid);
	if (!task)
		return false;
	bool same = task->tgid == process;
	bpf_task_release(task);
	return same;
}

/* The receiver of a send that woke no thread: the last one of its object. */
static __always_inline void guess_receiver(struct sent *sent, int sender)
{
	if (!sent->object)
		return;
	struct receiver *last = bpf_map_lookup_elem(&inboxes, &sent->object);
	if (!last || !last->tid || last->tid == sender || !exists(last->tid, last->process))
		return;
	sent->receiver = last->tid;
	sent->process = last->process;
	sent->guessed = true;
	__builtin_memcpy(sent->name, last->name, sizeof(sent->name));
}

static __always_inline void begin_answer(const struct member *member, struct sent *sent)
{
	if (!sent->receiver)
		guess_receiver(sent, member->tid);
	int receiver = sent->receiver;
	if (!receiver)
		return;
	sent->reported = receiver;
	sent->begun = true;
	begin_awaited(receiver, member, 0);
	struct tek_kthread_event *event = new_event(TEK_KTHREAD_ANSWERS,
						    TEK_KTHREAD_ANSWER_AWAITED);
	if (!event)
		return;
	event->thing = (__u64)member->tid << 32 | receiver;
	event->second = sent->process;
	event->kthread = receiver;
	__builtin_memcpy(event->name, sent->name, sizeof(event->name));
	fill_member(event, member);
	if (sent->guessed)
		event->flags |= TEK_KTHREAD_GUESSED;
	send(event, changes(member, receiver));
}

/* Where no program sees writes to pipes: the task has written since its last sleep, or writes. No
 * write woke a thread, so the other end of the last such wake-up is awake. */
static __always_inline void guess_writes(struct task_struct *task, struct sends *mine,
					 const struct call *call)
{
	__u64 count = BPF_CORE_READ(task, ioac.syscw);
	bool wrote = count != mine->writes || writes(call);
	mine->writes = count;
	if (!wrote || !mine->writer.tid || mine->writer.tid == task->pid)
		return;
	for (__u32 i = 0; i < MAX_SENT; i++) {
		/* The write was this send. */
		if (mine->sent[i].time > mine->slept)
			return;
	}
	if (!exists(mine->writer.tid, mine->writer.process))
		return;
	struct sent *sent = place_for(mine, 0, mine->writer.tid);
	*sent = (struct sent){.receiver = mine->writer.tid,
			      .process = mine->writer.process,
			      .time = bpf_ktime_get_ns(),
			      .guessed = true};
	__builtin_memcpy(sent->name, mine->writer.name, sizeof(sent->name));
}

/* The current task falls asleep. */
static __always_inline void begin_answers(struct task_struct *task)
{
	struct member member = {};
	struct call call;
	int tid = task->pid;
	bool counts = settings.counts_writes && bpf_core_field_exists(task->ioac.syscw);
	if ((entries(sends) <= 0 && !counts) || !sleeps_for_a_call(task))
		return;
	struct sends *mine = bpf_map_lookup_elem(&sends, &tid);
	if (!mine && !counts)
		return;
	if (!find_member(&member)) {
		if (mine)
			forget_sends(tid);
		return;
	}
	read_call(task, &call);
	if (!may_await(&call))
		return;
	if (!mine)
		mine = sends_of(&member);
	if (!mine)
		return;
	mine->member = member;
	if (counts)
		guess_writes(task, mine, &call);
	__u64 now = bpf_ktime_get_ns();
	for (__u32 i = 0; i < MAX_SENT; i++) {
		struct sent *sent = &mine->sent[i];
		if (!sent->time)
			continue;
		if (sent->time + (sent->begun ? SENT_NS : FIRST_NS) < now) {
			*sent = (struct sent){};
			continue;
		}
		begin_answer(&member, sent);
	}
	mine->slept = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sender_slept, bool preempted, struct task_struct *from, struct task_struct *to)
{
	/* A task that was woken at the moment at which it fell asleep has no later wake-up. */
	if (entries(sends) > 0)
		end_answers(to->pid, NULL);
	if (!preempted)
		begin_answers(from);
	return 0;
}

/* The send whose hook has run in the call that the task is in; NULL: there was no hook. */
static __always_inline struct sent *last_send(struct sends *mine, __u64 now)
{
	struct sent *last = &mine->sent[mine->last % MAX_SENT];
	return last->time && last->object && now - last->time < SENDING_NS ? last : NULL;
}

/* The send was an answer, after which its sender waits for none. */
static __always_inline void note_answer(int tid)
{
	struct sends *its = bpf_map_lookup_elem(&sends, &tid);
	if (!its)
		return;
	struct sent *last = last_send(its, bpf_ktime_get_ns());
	if (last && !last->receiver)
		*last = (struct sent){};
}

/* The send of a critical task wakes a thread. */
static __always_inline void note_woken(struct task_struct *woken)
{
	struct member member = {};
	struct call call;
	if (!sleeps_for_a_call(woken) || !find_member(&member) || woken->pid == member.tid)
		return;
	read_call((void *)bpf_get_current_task_btf(), &call);
	if (!is_send(&call))
		return;
	bool counted = writes(&call);
	read_call(woken, &call);
	if (!is_receive(&call))
		return;
	struct sends *mine = sends_of(&member);
	if (!mine)
		return;
	__u64 now = bpf_ktime_get_ns();
	struct sent *last = last_send(mine, now);
	if (!last) {
		last = place_for(mine, 0, woken->pid);
		if (last->receiver != woken->pid)
			*last = (struct sent){};
		last->time = now;
	}
	last->receiver = woken->pid;
	last->process = woken->tgid;
	last->guessed = false;
	last->begun = false;
	BPF_CORE_READ_STR_INTO(&last->name, woken, comm);
	if (counted)
		note_writer(&mine->writer, woken);
	/* The receiver may send to a further thread before this task sleeps. */
	begin_awaited(woken->pid, &member, now + SENT_NS);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(receiver_woken, struct task_struct *task)
{
	struct task_struct *waker = (void *)bpf_get_current_task_btf();
	if (entries(sends) > 0 && end_answers(task->pid, waker))
		note_answer(waker->pid);
	else
		note_woken(task);
	return 0;
}

#endif
