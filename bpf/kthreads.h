/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The events of TEK's BPF programs: each reports for which task another thread works.
 *
 * This header includes nothing: kthreads.bpf.c and crates/tek-bpf have the same structs, with
 * sizes and offsets asserted on both sides. Numbers are in the machine's own byte order.
 *
 * A critical task is a user task that runs at a real-time priority, or that userland named in the
 * map `fast`. A relation is one critical task with one thing that a kernel thread works on. One
 * event reports its begin, and one event its end. The thing is an address in the kernel, which only
 * distinguishes relations until their end.
 *
 * Locks and answers are relations with user threads: the field kthread is the tid of such a thread.
 */
#ifndef TEK_KTHREADS_H
#define TEK_KTHREADS_H

/* The kind of an event. A number is never reused for another kind. */
enum tek_kthread_kind {
	/* Work items of workqueues. thing: the work; second: its function.
	 * The task queued the work; kthread is the worker that will be woken. Reported again for
	 * the same task and work when the work is queued anew before it runs. */
	TEK_KTHREAD_WORK_QUEUED = 1,
	/* kthread is a busy worker; the work waits until a worker is free. */
	TEK_KTHREAD_WORK_AHEAD = 2,
	/* kthread runs the work now, whichever worker was reported before. */
	TEK_KTHREAD_WORK_STARTED = 3,
	/* kthread has run the work: the relation ends. */
	TEK_KTHREAD_WORK_ENDED = 4,
	/* The work was cancelled before it ran: the relation ends. */
	TEK_KTHREAD_WORK_DROPPED = 5,
	/* kthread, a boosted worker, begins a work that no critical task waits for. */
	TEK_KTHREAD_UNRELATED = 6,

	/* Dirty inodes. thing: the inode; second: its bdi_writeback; dev: its file system's device,
	 * or for the inode of a disk that disk.
	 * kthread is the worker that has the work of this bdi_writeback at present, or 0. */
	TEK_KTHREAD_INODE_DIRTIED = 10,
	/* The inode has no dirty pages any more: the relation ends for all its tasks. */
	TEK_KTHREAD_INODE_CLEANED = 11,
	/* The inode was deleted: the relation ends for all its tasks. */
	TEK_KTHREAD_INODE_GONE = 12,

	/* The work of a bdi_writeback that has such inodes. thing: the work; second: the wb.
	 * Any task queued the work; kthread is the worker that will be woken. */
	TEK_KTHREAD_WB_QUEUED = 13,
	/* The same as the kinds WORK_AHEAD to WORK_ENDED. */
	TEK_KTHREAD_WB_AHEAD = 14,
	TEK_KTHREAD_WB_STARTED = 15,
	TEK_KTHREAD_WB_ENDED = 16,
	/* The task must sleep because second, a wb, has too many dirty pages. */
	TEK_KTHREAD_THROTTLED = 17,

	/* Memory. thing: the node; kthread: its kswapd or kcompactd.
	 * The task wakes kthread. */
	TEK_KTHREAD_KSWAPD_WANTED = 20,
	/* kthread has done its work: the relation ends for all tasks. */
	TEK_KTHREAD_KSWAPD_SLEPT = 21,
	/* The task itself reclaims memory; the node is the node on which the task runs. */
	TEK_KTHREAD_RECLAIM_BEGAN = 22,
	TEK_KTHREAD_RECLAIM_ENDED = 23,
	TEK_KTHREAD_KCOMPACTD_WANTED = 24,
	TEK_KTHREAD_KCOMPACTD_SLEPT = 25,

	/* Block requests. thing: the request; dev: the disk.
	 * kthread is the thread that completed the last request of the queue, or of the disk. */
	TEK_KTHREAD_REQUEST_BEGAN = 30,
	/* kthread is the thread that completed the request; 0: an interrupt completed it. */
	TEK_KTHREAD_REQUEST_ENDED = 31,

	/* New kernel threads. thing: the tid of the waiting task; kthread: kthreadd. */
	TEK_KTHREAD_CREATION_BEGAN = 40,
	TEK_KTHREAD_CREATION_ENDED = 41,
	/* kthread is the new thread, which must run before the creation ends. */
	TEK_KTHREAD_BORN = 42,

	/* io_uring. thing: the request. The request goes to a worker of the task's process. */
	TEK_KTHREAD_URING_QUEUED = 50,
	/* kthread is the worker that completed the request; 0: no worker completed it. */
	TEK_KTHREAD_URING_ENDED = 51,

	/* The task has ended, and all its relations end with it. */
	TEK_KTHREAD_TASK_EXITED = 60,

	/* Network packets. thing: the packet.
	 * The task has sent the packet, and kthread must process it. thing 0: packets are not
	 * watched (settings.packets), so no relation begins and the event reports the task only. */
	TEK_KTHREAD_PACKET_BEGAN = 70,
	/* The packet has reached its destination, or was dropped. */
	TEK_KTHREAD_PACKET_ENDED = 71,

	/* Tasks that sleep inside the kernel until something is done. thing: the tid of the task.
	 * kthread works for storage meanwhile. second: 0; or the process of kthread, an ordinary
	 * thread that holds something inside a file system and has no CPU. */
	TEK_KTHREAD_STORAGE_AWAITED = 80,
	/* kthread is idle again: its relations with all such tasks end. */
	TEK_KTHREAD_STORAGE_DONE = 81,
	/* The task runs again: its relations with all such threads end. */
	TEK_KTHREAD_STORAGE_ENDED = 82,
	/* A task without an entry in the map `tasks` uses a file system. No relation begins. */
	TEK_KTHREAD_STORAGE_USED = 83,
	/* A thread left the end of a request to a softirq. No relation begins. */
	TEK_KTHREAD_STORAGE_RAISED = 84,

	/* Locks of user programs. thing: the address of the lock's word that the task waits for, in
	 * the task's process; second: the process of kthread, 0: not known.
	 * The task sleeps in futex(2), and kthread, a user thread, holds the lock or is the thread
	 * that the task joins. The flags GUESSED and FOREIGN say how certain this is. */
	TEK_KTHREAD_LOCK_AWAITED = 90,
	/* The task was woken: the relation ends. */
	TEK_KTHREAD_LOCK_ENDED = 91,

	/* Answers of user programs. thing: the task's tid << 32 | the tid of kthread; second: the
	 * process of kthread, 0: not known.
	 * The task has sent something that kthread, a user thread, receives, and now sleeps. */
	TEK_KTHREAD_ANSWER_AWAITED = 100,
	/* The task was woken: the relation ends. A further sleep within 100 ms after the send
	 * begins it anew, because the wake-up need not have been the answer. */
	TEK_KTHREAD_ANSWER_ENDED = 101,
};

/* Groups of programs: the programs of a group work together or are all missing. */
enum tek_kthread_dependency {
	TEK_KTHREAD_WORKERS = 0,
	TEK_KTHREAD_WRITEBACK = 1,
	TEK_KTHREAD_RECLAIM = 2,
	TEK_KTHREAD_PAGE_CACHE = 3,
	TEK_KTHREAD_BLOCK = 4,
	TEK_KTHREAD_CREATION = 5,
	TEK_KTHREAD_URING = 6,
	TEK_KTHREAD_EXITS = 7,
	TEK_KTHREAD_NETWORK = 8,
	TEK_KTHREAD_STORAGE = 9,
	TEK_KTHREAD_LOCKS = 10,
	TEK_KTHREAD_ANSWERS = 11,
	TEK_KTHREAD_DEPENDENCIES = 12,
};

/* Bits of an event's flags. */
/* The task is no critical task itself: it is a boosted kernel thread, an io_uring worker, or a
 * user thread that a critical task waits for. Its relations may end later than that wait. */
#define TEK_KTHREAD_VIA 1
#define TEK_KTHREAD_WOKE 2 /* the event woke userland */
#define TEK_KTHREAD_LOST 4 /* events before this event were lost */
/* LOCK_AWAITED: the lock has no owner's id, and kthread woke a waiter of the lock last.
 * ANSWER_AWAITED: sending woke no thread, and kthread received from the same object last; or
 * kthread has woken the task since, perhaps with the answer. */
#define TEK_KTHREAD_GUESSED 8
/* LOCK_AWAITED: the lock lies in shared memory and names a thread of another process, or, with
 * second 0, a thread that the programs could not find. Userland must check that this process maps
 * the same memory. */
#define TEK_KTHREAD_FOREIGN 16

#define TEK_KTHREAD_NAME_BYTES 16

struct tek_kthread_event {
	unsigned long long time;   /* ns, CLOCK_MONOTONIC */
	unsigned long long thing;  /* see the kind */
	unsigned long long second; /* see the kind */
	int kthread;               /* tid of the thread that works, 0: not known or none */
	int task;                  /* tid of the critical task, 0: no single one */
	int process;               /* tgid of the task */
	unsigned int dev;          /* major << 20 | minor, 0: none */
	unsigned short kind;       /* enum tek_kthread_kind */
	unsigned char priority;    /* priority of the task: 1 to 99 */
	unsigned char flags;
	unsigned int spare;
	char name[TEK_KTHREAD_NAME_BYTES]; /* of that thread; empty: not known */
};

/* The map `boosted`: tid of a kernel thread -> the priorities that its boost covers. Bit n % 64 of
 * word n / 64 is priority n. A relation of a covered priority does not wake userland. A thread
 * without any bit is not boosted at present. */
struct tek_kthread_covered {
	unsigned long long bits[2];
};

/* The map `reclaimers`: node | kind of thread << 16 -> tid. Userland writes it at the start. The
 * programs write a thread's entry when the thread goes to sleep. */
#define TEK_KTHREAD_KSWAPD 0
#define TEK_KTHREAD_KCOMPACTD 1

/* The map `cpu_threads`: CPU | kind of thread << 16 -> tid, written by userland. */
#define TEK_KTHREAD_KSOFTIRQD 0
#define TEK_KTHREAD_BACKLOG 1
#define TEK_KTHREAD_KTIMERS 2

/* Values of the map `tasks`: tid -> whether userland follows the task. */
enum tek_kthread_follow {
	TEK_KTHREAD_IGNORE = 0,
	TEK_KTHREAD_FOLLOW = 1,
	TEK_KTHREAD_REPORTED =
		2, /* written by the programs: reported to userland, which has set no value yet */
};

/* Values of settings.packets: whether the programs store packets of critical tasks. */
enum tek_kthread_packets {
	TEK_KTHREAD_NOT_WATCHED = 0,
	/* The programs check at the end of the sending call whether a thread must process it. */
	TEK_KTHREAD_AT_END = 1,
	/* They check as soon as the packet waits, where that end cannot be hooked. */
	TEK_KTHREAD_AT_ONCE = 2,
};

/* The number of entries that userland removed from maps that the programs fill and count. */
struct tek_kthread_removed {
	int works;
	int running;
	int inodes;
	int requests;
	int reclaiming;
	int creations;
	int packets;
	int waiting;
	int busy;
	int lock_waits;
	int sends;
	int awaited;
};

/* Written by userland only. */
struct tek_kthread_settings {
	/* On x86: the distance of preempt_count from the CPU's struct rq; 0: not known. */
	long long preempt_count;
	/* The same distance for the pointers to two threads of the CPU. */
	long long ksoftirqd;
	long long backlog_napi;
	unsigned int fast;    /* entries of the map `fast` */
	unsigned int boosted; /* entries of the map `boosted` */
	/* Entries that userland made in the map `tasks`, less the entries that it removed. The sum
	 * with tek_kthread_tallies.who is the size of the map. */
	int tasks;
	unsigned int packets;       /* enum tek_kthread_packets */
	unsigned int counts_writes; /* not 0: no program sees writes to pipes */
	unsigned int spare;
	struct tek_kthread_removed removed;
};

/* Written by the programs only: their counts let most programs return at once. */
struct tek_kthread_tallies {
	unsigned long long lost[TEK_KTHREAD_DEPENDENCIES]; /* lost events, things without entry */
	unsigned int lost_one; /* not zero: the next event must report a loss */
	int tasks;             /* entries that programs made in `tasks`, less those they removed */
	/* Entries of maps; tek_kthread_removed counts the entries that userland removed. */
	int works;                    /* of `works` */
	int running;                  /* of `running` */
	int inodes;                   /* of `inodes` */
	int requests;                 /* of `requests` */
	int reclaiming;               /* of `reclaiming` */
	int creations;                /* of `creating` */
	int packets;                  /* of `packets`, and those that the LRU map evicted */
	int waiting;                  /* of `waiting` */
	int busy;                     /* of `busy` */
	int lock_waits;               /* of `lock_waits` */
	int sends;                    /* of `sends` */
	int awaited;                  /* of `awaited` */
	int uring;                    /* not 0 once there was an entry in `uring` */
	int pending;                  /* not 0 once there was an entry in `pending` */
	int wakers;                   /* not 0 once there was an entry in `wakers` */
	int inboxes;                  /* not 0 once there was an entry in `inboxes` */
	unsigned int period;          /* number of the last inode that became dirty */
	unsigned long long kswapd;    /* nodes whose kswapd a critical task woke: a bit each */
	unsigned long long kcompactd; /* the same */
	unsigned long long asked;     /* ns: last report of a packet that is not watched */
};

#endif
