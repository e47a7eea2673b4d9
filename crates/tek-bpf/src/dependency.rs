// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of programs, and the hook of each program. The programs of a group work together.
use std::fmt;

/// The kind of a dependency: `enum tek_kthread_dependency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// kworkers, for each work.
    Workers,
    /// The work that writes dirty inodes back.
    Writeback,
    /// kswapd, kcompactd and direct reclaim.
    Reclaim,
    /// Pages that critical tasks brought into the page cache.
    PageCache,
    /// Block requests, and the threads that complete them.
    Block,
    /// kthreadd.
    Creation,
    /// Workers of io_uring.
    Uring,
    /// The end of critical tasks.
    Exits,
    /// Network packets that softirq threads process.
    Network,
    /// Tasks that sleep until something is done for storage, at any task's request.
    Storage,
    /// User threads that hold a lock for which a critical task sleeps.
    Locks,
    /// User threads that receive what a critical task has sent before it sleeps.
    Answers,
}

impl Kind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Workers => "workers",
            Kind::Writeback => "writeback",
            Kind::Reclaim => "reclaim",
            Kind::PageCache => "page cache",
            Kind::Block => "block devices",
            Kind::Creation => "creation of kernel threads",
            Kind::Uring => "io_uring",
            Kind::Exits => "exits",
            Kind::Network => "network",
            Kind::Storage => "storage",
            Kind::Locks => "locks of programs",
            Kind::Answers => "answers of programs",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a dependency works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It works. The texts describe its limitations.
    On {
        /// As in "works that were cancelled are reported late: ...".
        but: Vec<String>,
    },
    /// It does not work, for this reason.
    Off(String),
}

/// A dependency and whether it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The kind of the dependency.
    pub kind: Kind,
    /// Whether it works.
    pub state: State,
}

impl Dependency {
    /// Whether it works.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }
}

/// The hook that a program is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Tracepoint(&'static str),
    Function(&'static str),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tracepoint(name) => write!(f, "the tracepoint {name}"),
            Target::Function(name) => write!(f, "the function {name}()"),
        }
    }
}

/// A program of bpf/.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook {
    pub program: &'static str,
    pub target: Target,
    /// The limitation without this program; `None`: the dependency needs this program.
    pub without: Option<&'static str>,
    /// Attached only while a task is critical: [`Watcher`](crate::Watcher).
    pub watch: bool,
    /// If this dependency works, its programs do the same work: one program is cheaper than two.
    pub done_by: Option<Kind>,
    /// The hook of earlier kernels, with the same first argument.
    pub before: Option<Target>,
    /// Used only on kernels that have this hook, or that lack it.
    pub only: Option<Only>,
}

/// Kernels that use a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Only {
    With(Target),
    Without(Target),
}

pub(crate) struct Group {
    pub kind: Kind,
    /// The dependency that this group needs.
    pub needs: Option<Kind>,
    /// The per-CPU variable of the kernel that this group needs before Linux 6.2.
    pub variable: Option<&'static str>,
    /// The limitation before Linux 6.2, where programs cannot find a task by its id.
    pub limitation: Option<&'static str>,
    pub hooks: &'static [Hook],
}

impl Group {
    /// The programs that are of use only together: those that begin a relation and those that end
    /// it. They share one limitation, or are all required.
    pub(crate) fn fellows(&self, hook: &Hook) -> impl Iterator<Item = &'static Hook> {
        let without = hook.without;
        self.hooks.iter().filter(move |other| other.without == without)
    }
}

const fn hook(program: &'static str, target: Target) -> Hook {
    Hook { program, target, without: None, watch: false, done_by: None, before: None, only: None }
}

const fn tracepoint(program: &'static str, name: &'static str) -> Hook {
    hook(program, Target::Tracepoint(name))
}

const fn function(program: &'static str, name: &'static str) -> Hook {
    hook(program, Target::Function(name))
}

const fn hot(hook: Hook) -> Hook {
    Hook { watch: true, ..hook }
}

const fn unless(kind: Kind, hook: Hook) -> Hook {
    Hook { done_by: Some(kind), ..hook }
}

const fn or_else(hook: Hook, without: &'static str) -> Hook {
    Hook { without: Some(without), ..hook }
}

const fn before(target: Target, hook: Hook) -> Hook {
    Hook { before: Some(target), ..hook }
}

const fn only(only: Only, hook: Hook) -> Hook {
    Hook { only: Some(only), ..hook }
}

const IN_QUEUES: &str = "packets that wait in queues of devices are not reported";
const WAITER_IS_UNKNOWN: &str =
    "no event names the thread that waits for a new kernel thread, only the birth";
const NO_SOCKETS: &str = "the receiver of a UNIX socket is known only if the send wakes it";
pub(crate) const NO_PIPES: &str =
    "the receiver of a pipe or an eventfd is guessed from a count of writes if no send wakes it";
const OWN_ONLY: &str =
    "holders of other processes are not checked, and a holder that sleeps is not followed";

/// A socket received something: since Linux 6.3.
const RECEIVED: Target = Target::Tracepoint("sock_recv_length");

const fn of_sockets(hook: Hook) -> Hook {
    hot(or_else(hook, NO_SOCKETS))
}

const fn of_pipes(hook: Hook) -> Hook {
    hot(or_else(hook, NO_PIPES))
}

const NO_QUEUES: &str = "the receiver of a System V queue is known only if the send wakes it";
const NO_MQS: &str = "the receiver of a POSIX queue is known only if the send wakes it";

/// In the order of `enum tek_kthread_dependency`.
pub(crate) const GROUPS: [Group; 12] = [
    Group {
        kind: Kind::Workers,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("work_queued", "workqueue_queue_work"),
            tracepoint("work_started", "workqueue_execute_start"),
            tracepoint("work_ended", "workqueue_execute_end"),
            or_else(
                function("work_cancelled", "try_to_grab_pending"),
                "a work that is cancelled counts as queued until it is queued again",
            ),
        ],
    },
    Group {
        kind: Kind::Writeback,
        needs: Some(Kind::Workers),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("inode_dirtied", "writeback_mark_inode_dirty"),
            tracepoint("inode_cleaned", "writeback_single_inode"),
            unless(
                Kind::PageCache,
                hot(tracepoint("inode_gone", "mm_filemap_delete_from_page_cache")),
            ),
            or_else(
                tracepoint("throttled", "balance_dirty_pages"),
                "a task that must wait for writeback is known by its inodes only",
            ),
        ],
    },
    Group {
        kind: Kind::Reclaim,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("kswapd_wanted", "mm_vmscan_wakeup_kswapd"),
            tracepoint("kswapd_slept", "mm_vmscan_kswapd_sleep"),
            tracepoint("reclaim_began", "mm_vmscan_direct_reclaim_begin"),
            tracepoint("reclaim_ended", "mm_vmscan_direct_reclaim_end"),
            or_else(
                tracepoint("compact_wanted", "mm_compaction_wakeup_kcompactd"),
                "kcompactd is not followed",
            ),
            or_else(
                tracepoint("compact_slept", "mm_compaction_kcompactd_sleep"),
                "kcompactd is not followed",
            ),
        ],
    },
    Group {
        kind: Kind::PageCache,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            hot(tracepoint("page_came", "mm_filemap_add_to_page_cache")),
            hot(tracepoint("page_left", "mm_filemap_delete_from_page_cache")),
        ],
    },
    Group {
        kind: Kind::Block,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("request_queued", "block_rq_insert"),
            tracepoint("request_issued", "block_rq_issue"),
            tracepoint("request_merged", "block_rq_merge"),
            tracepoint("request_done", "block_rq_complete"),
        ],
    },
    Group {
        kind: Kind::Creation,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("thread_born", "sched_process_fork"),
            or_else(function("creation_began", "__kthread_create_on_node"), WAITER_IS_UNKNOWN),
            or_else(function("creation_ended", "__kthread_create_on_node"), WAITER_IS_UNKNOWN),
        ],
    },
    Group {
        kind: Kind::Uring,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            tracepoint("uring_queued", "io_uring_queue_async_work"),
            tracepoint("uring_ended", "io_uring_complete"),
        ],
    },
    Group {
        kind: Kind::Exits,
        needs: None,
        variable: None,
        limitation: None,
        hooks: &[tracepoint("task_exited", "sched_process_exit")],
    },
    Group {
        kind: Kind::Network,
        needs: Some(Kind::Exits),
        variable: Some("ksoftirqd"),
        limitation: None,
        hooks: &[
            tracepoint("packet_given", "netif_rx"),
            hot(tracepoint("packet_taken", "netif_receive_skb")),
            hot(tracepoint("packet_dropped", "kfree_skb")),
            hot(tracepoint("packet_freed", "consume_skb")),
            or_else(tracepoint("packet_queued", "qdisc_enqueue"), IN_QUEUES),
            hot(or_else(tracepoint("packet_sent", "net_dev_start_xmit"), IN_QUEUES)),
            hot(or_else(
                function("packet_handed", "__dev_queue_xmit"),
                "packets are reported that the task itself processes a moment later",
            )),
        ],
    },
    Group {
        kind: Kind::Storage,
        needs: Some(Kind::Workers),
        variable: None,
        limitation: None,
        hooks: &[
            hot(tracepoint("task_switched", "sched_switch")),
            hot(tracepoint("thread_woken", "sched_waking")),
            hot(tracepoint("softirq_raised", "softirq_raise")),
            or_else(
                tracepoint("buffer_touched", "block_touch_buffer"),
                "a task is not known before its first own request, work or write",
            ),
        ],
    },
    Group {
        kind: Kind::Locks,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: Some(OWN_ONLY),
        hooks: &[
            hot(tracepoint("lock_slept", "sched_switch")),
            hot(tracepoint("lock_woken", "sched_waking")),
        ],
    },
    Group {
        kind: Kind::Answers,
        needs: Some(Kind::Exits),
        variable: None,
        limitation: None,
        hooks: &[
            hot(tracepoint("sender_slept", "sched_switch")),
            hot(tracepoint("receiver_woken", "sched_waking")),
            of_sockets(before(
                Target::Function("sock_def_readable"),
                tracepoint("socket_sent", "sk_data_ready"),
            )),
            of_sockets(only(Only::With(RECEIVED), hook("socket_received", RECEIVED))),
            of_sockets(only(
                Only::Without(RECEIVED),
                function("stream_received", "unix_stream_recvmsg"),
            )),
            of_sockets(only(
                Only::Without(RECEIVED),
                function("datagram_received", "__unix_dgram_recvmsg"),
            )),
            of_pipes(before(
                Target::Function("pipe_write"),
                function("pipe_sent", "anon_pipe_write"),
            )),
            of_pipes(before(
                Target::Function("pipe_read"),
                function("pipe_received", "anon_pipe_read"),
            )),
            of_pipes(function("eventfd_sent", "eventfd_write")),
            of_pipes(function("eventfd_received", "eventfd_read")),
            hot(or_else(function("message_sent", "do_msgsnd"), NO_QUEUES)),
            hot(or_else(function("message_received", "do_msgrcv"), NO_QUEUES)),
            hot(or_else(function("mq_sent", "do_mq_timedsend"), NO_MQS)),
            hot(or_else(function("mq_received", "do_mq_timedreceive"), NO_MQS)),
        ],
    },
];
