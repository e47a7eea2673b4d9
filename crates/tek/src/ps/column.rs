// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns: one for each value of a thread.
use super::thread::Thread;
use super::value::Value;
use crate::words;
use clap::ValueEnum;
use tek_abi::{FLAG_MARKED, SCHED_POLICY};
use tek_model::Wanted;

/// A column. Its name on the command line is that of the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Process
    Pid,
    /// Thread; a user-level one, which the kernel has no number for, as u and its number
    Tid,
    /// Number of a user-level thread in its process
    Number,
    /// Worker that a user-level thread runs on, or did last, from 0
    Worker,
    /// Kernel thread that carries that worker
    WorkerTid,
    /// Program: the short name from its table, else that of its first thread
    Program,
    /// Thread's name, as the kernel knows it
    Name,
    /// What it is for: set by the program or a rule
    Role,
    /// Function that it runs; of a std::thread what that calls (from its table)
    Function,
    /// Group: normal, urgent, service, background (where tekd has it, else from its table)
    Group,
    /// Region: fast, or none (from its table)
    Region,
    /// Scheduling policy: other, fifo, rr, batch, idle, deadline, ext, tek
    Policy,
    /// With it: the real-time priority of fifo and rr, else the nice value
    Priority,
    /// Real-time priority in force: that of fifo, rr and tek, from 1 (last) to 99 (first)
    RtPriority,
    /// Size of its stack (from its table)
    Stack,
    /// Stack that it certainly used (from its table; where that does not say, as far as it may be
    /// seen)
    Peak,
    /// Stack that it used at most (likewise)
    Bound,
    /// Zone of its stack, by its peak: low, normal, high
    Zone,
    /// Time since it began
    Age,
    /// CPU time that it used: in steps of 10ms, exact where cpu% or run-delay is shown too
    Cpu,
    /// Share of a CPU that it had: of its whole life, with --watch since the last refresh
    #[value(name = "cpu%")]
    CpuPercent,
    /// Time that it was ready to run and waited for a CPU
    RunDelay,
    /// Share of the time that it waited for a CPU: as with cpu%
    #[value(name = "delay%")]
    DelayPercent,
    /// Context switches
    Switches,
    /// Context switches a second because it waited for something: as with cpu%
    #[value(name = "vol/s")]
    Voluntary,
    /// Context switches a second because another thread was to run: as with cpu%
    #[value(name = "invol/s")]
    Involuntary,
    /// Size of its process's address space
    Vm,
    /// Thread that created it (from its table)
    Creator,
    /// Where it was created: the caller of pthread_create (from its table)
    CallSite,
    /// State: R running, S sleeping, D waiting for a device, T stopped, Z ended, I idle
    State,
    /// What a user-level thread waits for: mutex, cond, rwlock, barrier, semaphore, once, join,
    /// file, sleep, signal, pause, other
    Waits,
    /// Why it is in the Fast Region: policy, enter, timed, rule, follow, lift; or that it is marked
    Critical,
    /// Thread that holds what it waits for, and is in the Fast Region therefore (lift)
    WaitsFor,
    /// Thread that waits for what it holds, or for its end (lift)
    LiftedBy,
    /// Whether TEK knows it; what it does not know is from /proc alone
    Tracked,
    /// Whether it is a thread of the kernel
    Kernel,
    /// Whether it is a user-level thread
    User,
}

/// The default columns of `tek ps`.
pub const USUAL: [Column; 11] = [
    Column::Pid,
    Column::Tid,
    Column::Program,
    Column::Name,
    Column::Role,
    Column::Region,
    Column::Policy,
    Column::Priority,
    Column::State,
    Column::Cpu,
    Column::Age,
];

impl Column {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no column is hidden").get_name().to_owned()
    }

    /// Its key in JSON and CSV; the unit is in it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Pid => "pid",
            Self::Tid => "tid",
            Self::Number => "number",
            Self::Worker => "worker",
            Self::WorkerTid => "worker_tid",
            Self::Program => "program",
            Self::Name => "name",
            Self::Role => "role",
            Self::Function => "function",
            Self::Group => "group",
            Self::Region => "region",
            Self::Policy => "policy",
            Self::Priority => "priority",
            Self::RtPriority => "rt_priority",
            Self::Stack => "stack_bytes",
            Self::Peak => "peak_bytes",
            Self::Bound => "bound_bytes",
            Self::Zone => "zone",
            Self::Age => "age_ns",
            Self::Cpu => "cpu_ns",
            Self::CpuPercent => "cpu_percent",
            Self::RunDelay => "run_delay_ns",
            Self::DelayPercent => "delay_percent",
            Self::Switches => "switches",
            Self::Voluntary => "voluntary_per_s",
            Self::Involuntary => "involuntary_per_s",
            Self::Vm => "vm_bytes",
            Self::Creator => "creator_tid",
            Self::CallSite => "call_site",
            Self::State => "state",
            Self::Waits => "waits",
            Self::Critical => "critical",
            Self::WaitsFor => "waits_for_tid",
            Self::LiftedBy => "lifted_by_tid",
            Self::Tracked => "tracked",
            Self::Kernel => "kernel",
            Self::User => "user",
        }
    }

    /// Whether its values are numbers, which stand to the right.
    pub fn is_number(self) -> bool {
        use Column::*;
        let numbers = [
            Pid,
            Tid,
            Number,
            Worker,
            WorkerTid,
            Priority,
            RtPriority,
            Stack,
            Peak,
            Bound,
            Age,
            Cpu,
            CpuPercent,
            RunDelay,
            DelayPercent,
            Switches,
            Voluntary,
            Involuntary,
            Vm,
            Creator,
            WaitsFor,
            LiftedBy,
        ];
        numbers.contains(&self)
    }

    /// Adds the values that must be read for it.
    pub fn want(self, wanted: &mut Wanted) {
        match self {
            Self::CpuPercent | Self::RunDelay | Self::DelayPercent => wanted.schedstat = true,
            Self::Switches | Self::Voluntary | Self::Involuntary => wanted.switches = true,
            Self::Vm => wanted.vm = true,
            Self::Group => wanted.groups = true,
            Self::Function | Self::CallSite => wanted.modules = true,
            Self::Peak | Self::Bound | Self::Zone => wanted.stacks = true,
            _ => {}
        }
    }

    /// Its value for a thread.
    pub fn value(self, thread: &Thread) -> Value {
        let stat = &thread.task.stat;
        let record = thread.task.record.map(|thread| thread.record);
        let side = thread.task.record.map(|thread| thread.side);
        let user = thread.user;
        let worker = user.and_then(|user| user.worker);
        let positive = |number: u64| (number != 0).then_some(number);
        let pages = |number: u64| positive(number.saturating_mul(thread.page_bytes.into()));
        match self {
            Self::Pid => Value::Count(thread.pid.into()),
            Self::Tid => Value::of(positive(stat.tid.into()), Value::Count),
            Self::Number => Value::of(user, |user| Value::Count(user.number.into())),
            Self::Worker => Value::of(worker, |worker| Value::Count(worker.number.into())),
            Self::WorkerTid => {
                Value::of(worker.and_then(|worker| worker.tid), |tid| Value::Count(tid.into()))
            }
            Self::Program => Value::Text(thread.program.to_string()),
            Self::Name => Value::Text(stat.name.clone()),
            Self::Role => Value::of(thread.role(), Value::Text),
            Self::Function => Value::of(thread.function.clone(), Value::Text),
            // Groups and CPU values belong to kernel threads.
            Self::Group if user.is_some() => Value::None,
            Self::Group => Value::of(thread.task.group(), |group| Value::Text(words::group(group))),
            Self::Region => Value::of(record, |_| {
                Value::Text(if thread.is_fast() { "fast" } else { "none" }.into())
            }),
            Self::Policy => Value::Text(policy(thread)),
            Self::Priority => Value::Level(priority(thread)),
            Self::RtPriority => Value::of(positive(stat.rt_priority.into()), Value::Count),
            Self::Stack => {
                Value::of(record.and_then(|r| pages(r.stack_pages.into())), Value::Bytes)
            }
            Self::Peak => {
                Value::of(thread.task.stack.and_then(|stack| stack.peak_bytes), Value::Bytes)
            }
            Self::Bound => Value::of(thread.task.stack, |stack| Value::Bytes(stack.bound_bytes)),
            Self::Zone => {
                let zone = thread.zone().map(|zone| Value::Text(words::zone(zone).into()));
                zone.unwrap_or(Value::None)
            }
            Self::Age => Value::Time(thread.age_ns()),
            Self::Cpu => Value::of(thread.cpu_ns(), Value::Time),
            Self::CpuPercent => Value::of(thread.cpu_percent(), Value::Percent),
            Self::RunDelay => {
                Value::of(thread.task.schedstat, |times| Value::Time(times.run_delay_ns))
            }
            Self::DelayPercent => Value::of(thread.delay_percent(), Value::Percent),
            Self::Switches => {
                Value::of(thread.task.switches, |switches| Value::Count(switches.total()))
            }
            Self::Voluntary => Value::of(thread.rate(|switches| switches.voluntary), Value::Rate),
            Self::Involuntary => {
                Value::of(thread.rate(|switches| switches.involuntary), Value::Rate)
            }
            Self::Vm => Value::of(thread.vm_bytes.and_then(positive), Value::Bytes),
            Self::Creator if user.is_some() => Value::None,
            Self::Creator => {
                Value::of(side.and_then(|side| positive(side.creator_tid.into())), Value::Count)
            }
            Self::CallSite => Value::of(thread.call_site.clone(), Value::Text),
            Self::State => Value::Text(stat.state.to_string()),
            Self::Waits => {
                let waits = user.and(side).and_then(|side| words::waits(side.waits));
                Value::of(waits, |(word, _)| Value::Text(word.into()))
            }
            Self::Critical => Value::of(critical(thread), Value::Text),
            Self::WaitsFor => Value::of(thread.waits_for, |tid| Value::Count(tid.into())),
            Self::LiftedBy => Value::of(thread.lifted_by(), |tid| Value::Count(tid.into())),
            Self::Tracked => Value::Flag(record.is_some()),
            Self::Kernel => Value::Flag(stat.kernel),
            Self::User => Value::Flag(user.is_some()),
        }
    }

    /// The same for people.
    pub fn human(self, thread: &Thread) -> String {
        let named = |number: u32| format!("u{number}");
        match (self, thread.user) {
            (Self::Tid, Some(user)) => named(user.number),
            (Self::Region, None) if thread.is_lifted() => "lifted".into(),
            (Self::Creator, Some(_)) => thread.creator().map_or_else(|| "-".into(), named),
            // Its stat has no smaller unit than a clock tick.
            (Self::Cpu, _) if thread.cpu_ns() == Some(0) && thread.task.schedstat.is_none() => {
                "<10ms".into()
            }
            _ => self.value(thread).human(),
        }
    }
}

/// Whether it asked for SCHED_TEK and has it. For a kernel thread its present policy decides: the
/// kernel runs SCHED_TEK as `rr`. For a user-level thread the request decides.
fn has_sched_tek(thread: &Thread) -> bool {
    let asked = thread.task.record.is_some_and(|t| i32::from(t.record.policy) == SCHED_POLICY);
    if thread.user.is_some() {
        return asked;
    }
    let runs_so = thread.task.stat.policy == libc::SCHED_RR as u32 && !thread.task.is_overridden();
    asked && runs_so
}

fn policy(thread: &Thread) -> String {
    let number = thread.task.stat.policy;
    match words::policy(number) {
        _ if has_sched_tek(thread) => "tek".into(),
        Some(name) => name.into(),
        None => number.to_string(),
    }
}

fn priority(thread: &Thread) -> i64 {
    let stat = &thread.task.stat;
    match thread.task.record {
        Some(own) if has_sched_tek(thread) || thread.user.is_some() => own.record.priority.into(),
        _ if stat.rt_priority != 0 => stat.rt_priority.into(),
        _ => stat.nice.into(),
    }
}

fn critical(thread: &Thread) -> Option<String> {
    let own = thread.task.record?;
    let mut reported: Vec<String> = Vec::new();
    if thread.is_fast() {
        reported.extend(words::reasons(own.side.reasons).into_iter().map(|reason| {
            match (reason, own.side.rule) {
                ("rule", number @ 1..) => format!("rule {number}"),
                _ => reason.to_owned(),
            }
        }));
    }
    if own.record.flags & FLAG_MARKED != 0 {
        reported.push("marked".into());
    }
    (!reported.is_empty()).then(|| reported.join("+"))
}
