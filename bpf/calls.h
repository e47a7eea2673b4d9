/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The system call that a task is in, and the user threads that critical tasks wait for.
 *
 * locks.h and answers.h use it. The number and the arguments of a call lie in the registers that
 * the kernel saved at the entry. Only wake-ups and sleeps of critical tasks read them, so that no
 * system call costs more.
 */
#ifndef TEK_CALLS_H
#define TEK_CALLS_H

#include "common.h"

/* A system call with its first three arguments. */
struct call {
	long number; /* -1: none that is known */
	__u64 first;
	__u64 second;
	__u64 third;
};

/* The registers of a task at its entry into the kernel, and the numbers of its calls. */
#if defined(__TARGET_ARCH_x86)

#define TS_COMPAT 2 /* a bit of thread_info.status: a 32-bit call */

static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	struct pt_regs___tek_x86 *regs = (void *)bpf_task_pt_regs(task);
	struct task_struct___x86 *known = (void *)task;
	call->number = known->thread_info.status & TS_COMPAT ? -1 : (long)regs->orig_ax;
	call->first = regs->di;
	call->second = regs->si;
	call->third = regs->dx;
}

enum {
	CALL_READ = 0,
	CALL_WRITE = 1,
	CALL_POLL = 7,
	CALL_READV = 19,
	CALL_WRITEV = 20,
	CALL_SELECT = 23,
	CALL_SENDFILE = 40,
	CALL_CONNECT = 42,
	CALL_ACCEPT = 43,
	CALL_SENDTO = 44,
	CALL_RECVFROM = 45,
	CALL_SENDMSG = 46,
	CALL_RECVMSG = 47,
	CALL_MSGSND = 69,
	CALL_MSGRCV = 70,
	CALL_FUTEX = 202,
	CALL_EPOLL_WAIT = 232,
	CALL_MQ_SEND = 242,
	CALL_MQ_RECEIVE = 243,
	CALL_PSELECT = 270,
	CALL_PPOLL = 271,
	CALL_SPLICE = 275,
	CALL_EPOLL_PWAIT = 281,
	CALL_ACCEPT4 = 288,
	CALL_RECVMMSG = 299,
	CALL_SENDMMSG = 307,
	CALL_PREADV2 = 327,
	CALL_PWRITEV2 = 328,
};

#else

#if defined(__TARGET_ARCH_arm64)

#define TIF_32BIT 22 /* a bit of thread_info.flags */

static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	struct pt_regs___tek_arm64 *regs = (void *)bpf_task_pt_regs(task);
	struct task_struct___arm64 *known = (void *)task;
	call->number = BPF_CORE_READ(regs, syscallno);
	call->first = BPF_CORE_READ(regs, orig_x0);
	call->second = BPF_CORE_READ(regs, regs[1]);
	call->third = BPF_CORE_READ(regs, regs[2]);
	if (BPF_CORE_READ(known, thread_info.flags) & 1ul << TIF_32BIT)
		call->number = -1;
}

#elif defined(__TARGET_ARCH_riscv)

static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	struct pt_regs___tek_riscv *regs = (void *)bpf_task_pt_regs(task);
	call->number = BPF_CORE_READ(regs, a7);
	call->first = BPF_CORE_READ(regs, orig_a0);
	call->second = BPF_CORE_READ(regs, a1);
	call->third = BPF_CORE_READ(regs, a2);
}

#else

/* probe.rs switches the dependencies off on such processors. */
static __always_inline void read_call(struct task_struct *task, struct call *call)
{
	call->number = -1;
}

#endif

/* <asm-generic/unistd.h> */
enum {
	CALL_EPOLL_PWAIT = 22,
	CALL_READ = 63,
	CALL_WRITE = 64,
	CALL_READV = 65,
	CALL_WRITEV = 66,
	CALL_SENDFILE = 71,
	CALL_PSELECT = 72,
	CALL_PPOLL = 73,
	CALL_SPLICE = 76,
	CALL_FUTEX = 98,
	CALL_MQ_SEND = 182,
	CALL_MQ_RECEIVE = 183,
	CALL_MSGRCV = 188,
	CALL_MSGSND = 189,
	CALL_ACCEPT = 202,
	CALL_CONNECT = 203,
	CALL_SENDTO = 206,
	CALL_RECVFROM = 207,
	CALL_SENDMSG = 211,
	CALL_RECVMSG = 212,
	CALL_ACCEPT4 = 242,
	CALL_RECVMMSG = 243,
	CALL_SENDMMSG = 269,
	CALL_PREADV2 = 286,
	CALL_PWRITEV2 = 287,
	/* These do not exist. */
	CALL_POLL = -7,
	CALL_SELECT = -23,
	CALL_EPOLL_WAIT = -232,
};

#endif

/* Calls with the same number on all processors. */
enum { CALL_IO_URING_ENTER = 426, CALL_EPOLL_PWAIT2 = 441, CALL_FUTEX_WAITV = 449 };

/* <linux/futex.h> */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_COMMAND 0x7f
#define FUTEX_PRIVATE 0x80

/* Whether the task sleeps until something happens outside the kernel. */
static __always_inline bool sleeps_for_a_call(struct task_struct *task)
{
	__u32 state = task->__state;
	return state & TASK_INTERRUPTIBLE && !(state & TASK_UNINTERRUPTIBLE) &&
	       !(task->flags & PF_KTHREAD);
}

/* Whether the call is a wait of futex(2) that leaves priorities to userland. */
static __always_inline bool waits_for_futex(const struct call *call)
{
	__u32 command = call->second & FUTEX_COMMAND;
	return call->number == CALL_FUTEX &&
	       (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET);
}

/* The critical task `member` waits for this user thread, or is about to: until this time, 0: until
 * its sleep ends. If several wait, the most urgent one has the entry. */
static __always_inline void begin_awaited(int tid, const struct member *member, __u64 until)
{
	struct awaited now = {.waiter = member->tid, .priority = member->priority, .until = until};
	struct awaited *known = bpf_map_lookup_elem(&awaited, &tid);
	if (known) {
		if (known->until || (!until && known->priority < now.priority))
			*known = now;
		return;
	}
	if (!bpf_map_update_elem(&awaited, &tid, &now, BPF_NOEXIST))
		__sync_fetch_and_add(&tallies.awaited, 1);
}

/* The waiter was woken and may sleep for the same thread again, until this time. */
static __always_inline void defer_awaited(int tid, int waiter, __u64 until)
{
	struct awaited *known = bpf_map_lookup_elem(&awaited, &tid);
	if (known && known->waiter == waiter)
		known->until = until;
}

static __always_inline void end_awaited(int tid, int waiter)
{
	struct awaited *known = bpf_map_lookup_elem(&awaited, &tid);
	if (!known || known->waiter != waiter)
		return;
	if (!bpf_map_delete_elem(&awaited, &tid))
		__sync_fetch_and_add(&tallies.awaited, -1);
}

#endif
