// SPDX-License-Identifier: MIT OR Apache-2.0
//! One kernel thread that critical tasks wait for.
use std::collections::HashMap;
use tek_bpf::{Device, Thread};
use tek_effect::{Change, Identity, Scheduling, Watch};
use tek_policy::kthread::{Class, Dependants, Lingering, Ratio, RtPriority, Summary};

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
}

impl Why {
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
}

/// The thread, its R(k) and its boost.
pub struct Served {
    pub thread: Thread,
    /// Derived from the name.
    class: Class,
    /// The share of the pages: for kswapd.
    pub ratio: Ratio,
    pub boost: Boost,
    members: Lingering<i32>,
    whys: HashMap<i32, Why>,
    /// The members of R(k) before it became empty.
    last: Vec<(i32, u8)>,
}

impl Served {
    pub fn new(thread: Thread, why: Why, linger_ns: u64) -> Self {
        let class = match (thread.tid, why) {
            // The name of an ordinary thread may be any text.
            (_, Why::Held) => Class::Holder,
            (2, _) => Class::Creator,
            _ => Class::of_name(&thread.name.to_string()),
        };
        Self {
            thread,
            class,
            ratio: Ratio::ONE,
            boost: Boost::default(),
            members: Lingering::new(linger_ns),
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

    /// Whether the thread is a worker of a workqueue pool.
    pub fn is_kworker(&self) -> bool {
        self.thread.name.as_bytes().starts_with(b"kworker/")
    }

    /// Whether the names agree. Some events have no name.
    pub fn is(&self, thread: Thread) -> bool {
        let names = [self.thread.name, thread.name];
        names.iter().any(|name| name.is_empty()) || names[0] == names[1]
    }

    /// Adds a dependant to R(k), the dependants of this kernel thread. Like each function below
    /// that changes R(k), it returns whether the set changed.
    pub fn begin(&mut self, waiter: i32, priority: RtPriority, why: Why) -> bool {
        self.whys.insert(waiter, why);
        self.members.begin(waiter, priority)
    }

    pub fn change_priority(&mut self, waiter: i32, priority: RtPriority) -> bool {
        self.members.change_priority(waiter, priority)
    }

    pub fn end(&mut self, waiter: i32, at: u64) -> bool {
        self.members.end(waiter, at)
    }

    pub fn end_now(&mut self, waiter: i32) -> bool {
        self.members.end_now(waiter)
    }

    pub fn end_all(&mut self, now: u64) -> bool {
        self.members.end_all(now)
    }

    pub fn drop_lingering(&mut self) -> bool {
        self.members.drop_now()
    }

    pub fn forget(&mut self, waiter: i32) -> bool {
        self.last.retain(|(last, _)| *last != waiter);
        self.whys.remove(&waiter);
        self.members.remove_all_of(waiter)
    }

    pub fn expire(&mut self, now: u64) -> bool {
        let before = self.members.next_ns().is_some_and(|at| at <= now).then(|| self.members());
        let changed = self.members.expire(now);
        if let Some(before) = before.filter(|_| self.members.dependants().is_empty()) {
            self.last = before;
        }
        if changed {
            let members = self.members.dependants();
            self.whys.retain(|waiter, _| members.times_of(*waiter) > 0);
        }
        changed
    }

    /// R(k) is empty, and the thread has its own priority.
    pub fn is_free(&self) -> bool {
        self.members.dependants().is_empty() && self.boost.now.is_none()
    }

    /// The present dependants, or the last ones: works that they caused may be done after their
    /// wait.
    pub fn members(&self) -> Vec<(i32, u8)> {
        let now: Vec<_> =
            self.members.dependants().iter().map(|it| (it.waiter, it.priority.get())).collect();
        if now.is_empty() {
            self.last.clone()
        } else {
            now
        }
    }

    pub fn dependants(&self) -> &Dependants<i32> {
        self.members.dependants()
    }

    pub fn summary(&self) -> Option<Summary> {
        self.members.dependants().summary()
    }

    /// The priority of a member.
    pub fn priority_of(&self, waiter: i32) -> Option<u8> {
        let mut all = self.members.dependants().iter();
        all.find(|dependant| dependant.waiter == waiter).map(|dependant| dependant.priority.get())
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
