// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread that critical tasks wait for: a thread of the kernel, or of a program.
use super::lifted::Lifted;
use std::collections::HashMap;
use tek_bpf::{Device, Thread};
use tek_effect::{Change, Identity, Scheduling, Watch};
use tek_policy::dependency::{Because, Ratio, RtPriority};
use tek_policy::kthread::Class;

/// The reason why a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A work item, of this function of the kernel.
    Work(u64),
    /// A write that must go to a disk.
    Write(Device),
    /// A request to a disk.
    Request(Device),
    /// Free memory.
    Memory,
    /// Free memory in large blocks.
    Blocks,
    /// A new kernel thread.
    Thread,
    /// A request of io_uring.
    Uring,
    /// A timer: the kernel lets a task that writes too much sleep.
    Timer,
    /// A network packet that it sent.
    Packet,
    /// Work for storage while the task sleeps inside the kernel.
    Storage,
    /// The same, but the thread is an ordinary thread that holds something inside a file system.
    Held,
    /// A lock of a program: the address of its word.
    Lock(u64),
    /// An answer to what it has sent.
    Answer,
}

impl Why {
    /// The kind of the wait.
    pub fn because(self) -> Because {
        match self {
            Self::Lock(_) => Because::Lock,
            Self::Answer => Because::Answer,
            _ => Because::Work,
        }
    }

    /// Whether it means a thread of a program. The name of such a thread may be any text.
    pub fn is_for_user(self) -> bool {
        matches!(self, Self::Held | Self::Lock(_) | Self::Answer)
    }

    /// The disk that the task writes to.
    pub fn disk(self) -> Option<Device> {
        match self {
            Self::Write(disk) => Some(disk),
            _ => None,
        }
    }
}

/// The boost of a thread.
#[derive(Default)]
pub struct Boost {
    /// The identity of the thread, which distinguishes a later thread with the same id.
    pub identity: Option<Identity>,
    /// Makes frequent changes cheaper.
    pub watch: Option<Watch>,
    /// The attributes without a boost.
    pub usual: Option<Scheduling>,
    /// The change, in force or suspended.
    pub change: Option<Change>,
    /// The priority in force; `None`: the thread's own.
    pub now: Option<RtPriority>,
    /// It is a thread of a program: its children must not inherit the boost.
    pub is_user: bool,
    /// Fast threads are not real-time here, so a boosted thread of a program is not either.
    pub is_fair: bool,
    /// The reason why the priority is lower than computed.
    pub held: Option<String>,
    pub times: u64,
    pub since_ns: u64,
    /// The total duration of all boosts, without the present one.
    pub total_ns: u64,
}

impl Boost {
    /// Whether the boost belongs to this thread. Without a recorded identity the answer is yes.
    pub fn is_of(&self, thread: Identity) -> bool {
        self.identity.is_none_or(|identity| identity == thread)
    }

    /// Whether this thread of a program is boosted at present.
    pub fn is_lifted(&self, thread: Identity) -> bool {
        self.is_user && self.now.is_some() && self.identity == Some(thread)
    }
}

/// The thread and its boost.
pub struct Served {
    pub thread: Thread,
    /// Derived from the name.
    class: Class,
    /// The share of the pages: for kswapd.
    pub ratio: Ratio,
    pub boost: Boost,
    /// For a thread of a program.
    pub lifted: Lifted,
    /// The reason of each waiter.
    pub whys: HashMap<i32, Why>,
    /// The critical tasks behind it before its R(k) became empty.
    pub last: Vec<(i32, u8)>,
}

impl Served {
    pub fn new(thread: Thread, why: Why) -> Self {
        let class = match thread.tid {
            _ if why.is_for_user() => Class::Holder,
            2 => Class::Creator,
            _ => Class::of_name(&thread.name.to_string()),
        };
        Self {
            thread,
            class,
            ratio: Ratio::ONE,
            boost: Boost { is_user: class == Class::Holder, ..Boost::default() },
            lifted: Lifted::default(),
            whys: HashMap::new(),
            last: Vec::new(),
        }
    }

    /// A worker that writes back inodes of critical tasks has another class than other workers.
    pub fn class(&self) -> Class {
        let writes_back = || self.whys.values().any(|why| matches!(why, Why::Write(_)));
        match self.class {
            Class::Worker if self.is_kworker() && writes_back() => Class::Writeback,
            class => class,
        }
    }

    /// Whether it is a thread of a program.
    pub fn is_user(&self) -> bool {
        self.class == Class::Holder
    }

    /// Whether the thread is a worker of a workqueue pool.
    pub fn is_kworker(&self) -> bool {
        self.thread.name.as_bytes().starts_with(b"kworker/")
    }

    /// Whether it is this thread: the kinds agree, and the names of kernel threads. Some events
    /// have no name. Programs rename their threads, and the end of one is reported.
    pub fn is(&self, thread: Thread, why: Why) -> bool {
        let names = [self.thread.name, thread.name];
        self.is_user() == why.is_for_user()
            && (self.is_user() || names.iter().any(|name| name.is_empty()) || names[0] == names[1])
    }

    /// A task has ended.
    pub fn forget(&mut self, waiter: i32) {
        self.last.retain(|(last, _)| *last != waiter);
        self.whys.remove(&waiter);
    }

    pub fn why(&self, waiter: i32) -> Option<Why> {
        self.whys.get(&waiter).copied()
    }

    /// The function of a work that a task waits for.
    pub fn function(&self) -> Option<u64> {
        self.whys.values().find_map(|why| match why {
            Why::Work(function) => Some(*function),
            _ => None,
        })
    }

    /// Equation (3) applies to kswapd only.
    pub fn ratio_for_equation(&self) -> Ratio {
        if self.class() == Class::Reclaim {
            self.ratio
        } else {
            Ratio::ONE
        }
    }
}
