/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the BPF programs of TEK tell: whom a kernel thread works for.
 *
 * This header includes nothing: kthreads.bpf.c and crates/tek-bpf have the same structs, with
 * sizes and offsets asserted on both sides. Numbers are in the machine's own byte order.
 *
 * A critical task is a user task that runs at a real-time priority, or one that userland named in
 * the map `fast`. A relation is one critical task with one thing that a kernel thread works on: it
 * is told once when it begins, and once when it ends. The thing is an address in the kernel; it
 * means nothing by itself and tells relations apart until their end.
 */
#ifndef TEK_KTHREADS_H
#define TEK_KTHREADS_H

/* What happened. Numbers are never used again for something else. */
enum tek_kthread_kind {
	/* Work items of workqueues. thing: the work; second: its function.
	 * The task queued it; kthread is the worker that will be woken. Told again for the same task
	 * and work when the work is queued anew before it has run. */
	TEK_KTHREAD_WORK_QUEUED = 1,
	/* kthread is a worker that is busy before anybody comes to the work. */
	TEK_KTHREAD_WORK_AHEAD = 2,
	/* kthread runs it now, whoever was told before. */
	TEK_KTHREAD_WORK_STARTED = 3,
	/* kthread has run it: the relation ends. */
	TEK_KTHREAD_WORK_ENDED = 4,
	/* It was cancelled before it ran: the relation ends. */
	TEK_KTHREAD_WORK_DROPPED = 5,
	/* kthread, a boosted worker, begins a work that nobody critical waits for. */
	TEK_KTHREAD_UNRELATED = 6,

	/* Dirty inodes. thing: the inode; second: its bdi_writeback; dev: its file system's device,
	 * or the disk that it is.
	 * kthread is the worker that has that bdi_writeback's work just now, if one has. */
	TEK_KTHREAD_INODE_DIRTIED = 10,
	/* No dirty pages any more: the relation ends for all its tasks. */
	TEK_KTHREAD_INODE_CLEANED = 11,
	/* Deleted: the same. */
	TEK_KTHREAD_INODE_GONE = 12,

	/* The work of a bdi_writeback that has such inodes. thing: the work; second: the wb.
	 * Queued, by whomever; kthread is the worker that will be woken. */
	TEK_KTHREAD_WB_QUEUED = 13,
	/* As with other works. */
	TEK_KTHREAD_WB_AHEAD = 14,
	TEK_KTHREAD_WB_STARTED = 15,
	TEK_KTHREAD_WB_ENDED = 16,
	/* The task is made to sleep because too much is dirty on second, a wb. */
	TEK_KTHREAD_THROTTLED = 17,

	/* Memory. thing: the node; kthread: its kswapd or kcompactd.
	 * The task wakes it. */
	TEK_KTHREAD_KSWAPD_WANTED = 20,
	/* It has done its work: the relation ends for all tasks. */
	TEK_KTHREAD_KSWAPD_SLEPT = 21,
	/* The task itself reclaims; the node is that on which it runs. */
	TEK_KTHREAD_RECLAIM_BEGAN = 22,
	TEK_KTHREAD_RECLAIM_ENDED = 23,
	TEK_KTHREAD_KCOMPACTD_WANTED = 24,
	TEK_KTHREAD_KCOMPACTD_SLEPT = 25,

	/* Block requests. thing: the request; dev: the disk.
	 * kthread is the thread that completed the disk's last one. */
	TEK_KTHREAD_REQUEST_BEGAN = 30,
	/* kthread is the thread that completed it; 0: an interrupt did. */
	TEK_KTHREAD_REQUEST_ENDED = 31,

	/* New kernel threads. thing: the tid of who waits for one; kthread: kthreadd. */
	TEK_KTHREAD_CREATION_BEGAN = 40,
	TEK_KTHREAD_CREATION_ENDED = 41,
	/* kthread is the new one, which has to run before the creation ends. */
	TEK_KTHREAD_BORN = 42,

	/* io_uring. thing: the request. It goes to a worker of the task's process. */
	TEK_KTHREAD_URING_QUEUED = 50,
	/* kthread is the worker that completed it; 0: somebody else did. */
	TEK_KTHREAD_URING_ENDED = 51,

	/* The task has ended, and with it all its relations. */
	TEK_KTHREAD_TASK_EXITED = 60,

	/* Network packets. thing: the packet.
	 * The task has handed it over, and kthread has to carry it on. 0: nothing is watched yet
	 * (settings.packets), so no relation begins; only the task is told. */
	TEK_KTHREAD_PACKET_BEGAN = 70,
	/* It is where it was to go, or was dropped. */
	TEK_KTHREAD_PACKET_ENDED = 71,

	/* Tasks that sleep inside the kernel until something is done. thing: the tid of the task.
	 * kthread has something to do for storage meanwhile. second: 0; or kthread is an ordinary
	 * thread of this process, which holds something inside a file system and has no CPU. */
	TEK_KTHREAD_STORAGE_AWAITED = 80,
	/* kthread has done it: its relations with all such tasks end. */
	TEK_KTHREAD_STORAGE_DONE = 81,
	/* The task goes on: its relations with all such threads end. */
	TEK_KTHREAD_STORAGE_ENDED = 82,
	/* A task that is not known yet uses a file system. No relation begins. */
	TEK_KTHREAD_STORAGE_USED = 83,
	/* A thread left the end of a request to a softirq. No relation begins. */
	TEK_KTHREAD_STORAGE_RAISED = 84,
};

/* Groups of programs that work or are missing together. */
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
	TEK_KTHREAD_DEPENDENCIES = 10,
};

/* Bits of an event's flags. */
#define TEK_KTHREAD_VIA \
	1 /* the task is a kernel thread (or io_uring worker) that is boosted itself */
#define TEK_KTHREAD_WOKE 2 /* userland was woken for it */
#define TEK_KTHREAD_LOST 4 /* events before this one were lost */

#define TEK_KTHREAD_NAME_BYTES 16

struct tek_kthread_event {
	unsigned long long time;   /* ns, CLOCK_MONOTONIC */
	unsigned long long thing;  /* see the kind */
	unsigned long long second; /* see the kind */
	int kthread;               /* tid of the kernel thread, 0: not known or none */
	int task;                  /* tid of the critical task, 0: no single one */
	int process;               /* its tgid */
	unsigned int dev;          /* major << 20 | minor, 0: none */
	unsigned short kind;       /* enum tek_kthread_kind */
	unsigned char priority;    /* of the task: 1 to 99 */
	unsigned char flags;
	unsigned int spare;
	char name[TEK_KTHREAD_NAME_BYTES]; /* of the kernel thread; empty: not known */
};

/* The map `boosted`: tid of a kernel thread -> the priorities that its boost covers. A bit n of
 * word n / 64 is priority n. A relation of such a priority wakes nobody. Without a bit it is not boosted
 * just now. */
struct tek_kthread_covered {
	unsigned long long bits[2];
};

/* The map `reclaimers`: node | what << 16 -> tid. Userland fills it in at the beginning, the threads
 * themselves when they are seen. */
#define TEK_KTHREAD_KSWAPD 0
#define TEK_KTHREAD_KCOMPACTD 1

/* The map `cpu_threads`: CPU | what << 16 -> tid, by userland. */
#define TEK_KTHREAD_KSOFTIRQD 0
#define TEK_KTHREAD_BACKLOG 1
#define TEK_KTHREAD_KTIMERS 2

/* Values of the map `who`: tid -> what userland thinks of the task. */
enum tek_kthread_who {
	TEK_KTHREAD_IGNORE = 0,
	TEK_KTHREAD_FOLLOW = 1,
	TEK_KTHREAD_TOLD =
		2, /* written by the programs: userland was told of it, and said nothing */
};

/* Values of settings.packets: whether packets of critical tasks are remembered. */
enum tek_kthread_packets {
	TEK_KTHREAD_NOT_WATCHED = 0,
	/* Whether a thread will carry one on is looked at when the call that sends it ends; */
	TEK_KTHREAD_AT_END = 1,
	/* where that end cannot be seen, as soon as the packet waits somewhere. */
	TEK_KTHREAD_AT_ONCE = 2,
};

/* Entries that userland removed from maps that the programs fill and count. */
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
	int unused;
};

/* Written by userland only. */
struct tek_kthread_settings {
	/* On x86: how far behind a CPU's struct rq its preempt_count lies; 0: not known. */
	long long preempt_count;
	/* The same of the pointers to two of its threads. */
	long long ksoftirqd;
	long long backlog_napi;
	unsigned int fast;    /* entries of the map `fast` */
	unsigned int boosted; /* entries of the map `boosted` */
	/* Entries that userland made in the map `who`, less those that it removed: with
	 * tek_kthread_tallies.who these are all. */
	int who;
	unsigned int packets; /* enum tek_kthread_packets */
	struct tek_kthread_removed removed;
};

/* Written by the programs only: what they know of, so that most of them can return at once. */
struct tek_kthread_tallies {
	unsigned long long lost[TEK_KTHREAD_DEPENDENCIES]; /* events, or things not remembered */
	unsigned int lost_one; /* not zero: the next event has to say so */
	int who;               /* entries that programs made in `who`, less those removed */
	/* Entries of maps; tek_kthread_removed has those that userland removed. */
	int works;                    /* of `works` */
	int running;                  /* of `running` */
	int inodes;                   /* of `inodes` */
	int requests;                 /* of `requests` */
	int reclaiming;               /* of `reclaiming` */
	int creations;                /* of `creating` */
	int packets;                  /* of `packets`, and those that others pushed out of it */
	int waiting;                  /* of `waiting` */
	int busy;                     /* of `busy` */
	int uring;                    /* not 0 once there was an entry in `uring` */
	int pending;                  /* not 0 once there was an entry in `pending` */
	unsigned int turn;            /* number of the last inode that became dirty */
	unsigned long long kswapd;    /* nodes whose kswapd a critical task woke: a bit each */
	unsigned long long kcompactd; /* the same */
	unsigned long long asked;     /* ns: when packets were told of that are not watched */
};

#endif
