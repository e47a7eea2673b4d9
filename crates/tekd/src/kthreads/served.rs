// SPDX-License-Identifier: MIT OR Apache-2.0
//! One kernel thread that critical tasks wait for.
use std::collections::HashMap;
use tek_bpf::{Device, Thread};
use tek_effect::{Change, Identity, Scheduling, Watch};
use tek_policy::kthread::{Class, Dependants, Lingering, Ratio, RtPriority, Summary};

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A work item, of this function of the kernel.
    Work(u64),
    /// What it wrote has to go to a disk.
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
    /// A timer, by which the kernel slows down who writes too much.
    Timer,
    /// A network packet that it sent.
    Packet,
    /// Something that is done for storage while it sleeps inside the kernel.
    Storage,
    /// The same, but the thread is an ordinary one that holds something inside a file system.
    Held,
}

impl Why {
    /// Which disk is written to.
    pub fn disk(self) -> Option<Device> {
        match self {
            Self::Write(disk) => Some(disk),
            _ => None,
        }
    }
}

/// What it was given.
#[derive(Default)]
pub struct Boost {
    /// Which thread it is: a later one with its id is another.
    pub identity: Option<Identity>,
    /// It is changed often.
    pub watch: Option<Watch>,
    /// What it had.
    pub usual: Option<Scheduling>,
    /// In force, or at rest.
    pub change: Option<Change>,
    /// In force; `None`: its own.
    pub now: Option<RtPriority>,
    /// Why it has less than was computed.
    pub held: Option<String>,
    pub times: u64,
    pub since_ns: u64,
    /// All times together, without the present one.
    pub total_ns: u64,
}

impl Boost {
    /// Whether it is this thread's; of one that never got anything that is not known.
    pub fn is_of(&self, thread: Identity) -> bool {
        self.identity.is_none_or(|identity| identity == thread)
    }
}

/// The thread, R(k), and what it was given.
pub struct Served {
    pub thread: Thread,
    /// By its name.
    class: Class,
    /// The share of the pages: for kswapd.
    pub ratio: Ratio,
    pub boost: Boost,
    members: Lingering<i32>,
    whys: HashMap<i32, Why>,
    /// Who was in R(k) before nobody was.
    last: Vec<(i32, u8)>,
}

impl Served {
    pub fn new(thread: Thread, why: Why, linger_ns: u64) -> Self {
        let class = match (thread.tid, why) {
            // Any program may have any name.
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

    /// A worker that writes back what somebody wrote is of another class than others.
    pub fn class(&self) -> Class {
        let writes_back = || self.whys.values().any(|why| matches!(why, Why::Write(_)));
        match self.class {
            Class::Worker if self.is_kworker() && writes_back() => Class::Writeback,
            class => class,
        }
    }

    /// Whether it is one of the pools of workers.
    pub fn is_kworker(&self) -> bool {
        self.thread.name.as_bytes().starts_with(b"kworker/")
    }

    /// Whether it is this thread, as far as names tell. Some events have none.
    pub fn is(&self, thread: Thread) -> bool {
        let names = [self.thread.name, thread.name];
        names.iter().any(|name| name.is_empty()) || names[0] == names[1]
    }

    /// As all of these do: whether R(k) is another now.
    pub fn begin(&mut self, who: i32, priority: RtPriority, why: Why) -> bool {
        self.whys.insert(who, why);
        self.members.begin(who, priority)
    }

    pub fn change_priority(&mut self, who: i32, priority: RtPriority) -> bool {
        self.members.change_priority(who, priority)
    }

    pub fn end(&mut self, who: i32, at: u64) -> bool {
        self.members.end(who, at)
    }

    pub fn end_now(&mut self, who: i32) -> bool {
        self.members.end_now(who)
    }

    pub fn end_all(&mut self, now: u64) -> bool {
        self.members.end_all(now)
    }

    pub fn drop_those_who_linger(&mut self) -> bool {
        self.members.drop_now()
    }

    pub fn forget(&mut self, who: i32) -> bool {
        self.last.retain(|(last, _)| *last != who);
        self.whys.remove(&who);
        self.members.remove_all_of(who)
    }

    pub fn expire(&mut self, now: u64) -> bool {
        let before = self.members.next_ns().is_some_and(|at| at <= now).then(|| self.members());
        let changed = self.members.expire(now);
        if let Some(before) = before.filter(|_| self.members.dependants().is_empty()) {
            self.last = before;
        }
        if changed {
            let members = self.members.dependants();
            self.whys.retain(|who, _| members.times_of(*who) > 0);
        }
        changed
    }

    /// Nobody waits, and it has its own.
    pub fn is_free(&self) -> bool {
        self.members.dependants().is_empty() && self.boost.now.is_none()
    }

    /// Whom it follows, or followed last: what it has begun for them is done after that, too.
    pub fn members(&self) -> Vec<(i32, u8)> {
        let now: Vec<_> =
            self.members.dependants().iter().map(|it| (it.who, it.priority.get())).collect();
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

    /// That of a member.
    pub fn priority_of(&self, who: i32) -> Option<u8> {
        let mut all = self.members.dependants().iter();
        all.find(|dependant| dependant.who == who).map(|dependant| dependant.priority.get())
    }

    pub fn why(&self, who: i32) -> Option<Why> {
        self.whys.get(&who).copied()
    }

    /// Of the work that somebody waits for.
    pub fn function(&self) -> Option<u64> {
        self.whys.values().find_map(|why| match why {
            Why::Work(function) => Some(*function),
            _ => None,
        })
    }

    /// Equation (3) is for kswapd alone.
    pub fn ratio_for_equation(&self) -> Ratio {
        if self.class() == Class::Reclaim {
            self.ratio
        } else {
            Ratio::ONE
        }
    }
}
