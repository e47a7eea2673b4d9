// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack budget`: whether so many threads fit, and the limits that prevent it.
mod answer;
mod cure;
mod learnt;
mod room;
mod size;

use crate::message;
use crate::system::memory;
use answer::{Answer, Help};
use anyhow::Context;
use learnt::Known;
use room::Seen;
use size::Stack;
use std::io::Write;
use std::process::ExitCode;
use tek_policy::Size;
use tek_stack::budget::{judge, Available, Process, Resource, Threads};
use tek_stack::Costs;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek stack budget --threads 1000 --limit 3G --bits 32
      Does a 32-bit program with 3 GiB of addresses hold 1,000 threads?
  tek stack budget --threads 5000 --stack 256K --rlimit-as
      Do 5,000 threads with stacks of 256 KiB, under this shell's limits?
  tek stack budget --threads 300 --stack auto --memlock --arena-max 1
      Do 300 in a program that calls mlockall(MCL_FUTURE), as `tek run --stack
      auto --arena-max 1` runs it?
  tek stack budget --threads 200 --pid 815
      Does process 815 have room for 200 more?
  tek stack budget --threads 5000 --kind worker memcached
      Do 5,000 of memcached's workers fit, with the stacks that suit what earlier
      runs of it showed?

The table has a line for each resource that ends: what the threads need of it,
with what the process has already, what there is, and how many threads would fit
by it alone. A stack is mapped with its guard; thread control block and static
TLS lie inside it. malloc reserves 64 MiB of addresses (1 MiB in a 32-bit program)
for each arena but the first, and makes as many as threads ask for, up to 8 a CPU
(2 in a 32-bit program): an arena that cannot be had is no failure, so with malloc
in the way a few more threads may fit than it says. Locked memory counts guards
and arenas too.

--stack auto counts what `tek run --stack auto` gives a thread that needs no more
than its floor, with a guarded signal stack; with a PROGRAM, or --profile, the
largest stack that it gives one of that, or of its threads of one --kind.

EXIT STATUS:
    0  they fit
    1  they do not
    2  the command line was not understood
  125  TEK itself failed, for example because there is no such process, or nothing
       was learnt about the PROGRAM";

/// Arguments of `tek stack budget`.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// How many threads are to run
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    threads: u64,

    /// The size of their stacks, or auto [default: RLIMIT_STACK, as pthread_create
    /// takes it]
    #[arg(long, value_name = "SIZE|auto")]
    stack: Option<Stack>,

    /// The size of the guard below each stack
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    guard: Size,

    /// Thread control block and static TLS of the program, which lie in each stack
    #[arg(long, value_name = "SIZE", default_value = "4K")]
    tls: Size,

    /// They do not call malloc, and so get no arenas
    #[arg(long)]
    no_malloc: bool,

    /// malloc keeps at most so many arenas [default: MALLOC_ARENA_MAX]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    arena_max: Option<u64>,

    /// The program may have so many addresses
    #[arg(long, value_name = "SIZE")]
    limit: Option<Size>,

    /// Show RLIMIT_AS too where it limits nothing
    #[arg(long)]
    rlimit_as: bool,

    /// The program locks all its memory, mlockall(MCL_FUTURE), within
    /// RLIMIT_MEMLOCK
    #[arg(long)]
    memlock: bool,

    /// Word size of the program [default: 64, or that of the process]
    #[arg(long, value_name = "32|64", value_parser = ["32", "64"])]
    bits: Option<String>,

    /// Addresses that the program takes without these threads [default: 4M]
    #[arg(long, value_name = "SIZE", conflicts_with = "pid")]
    base: Option<Size>,

    /// The threads come into this process, under its limits
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    #[command(flatten)]
    known: Known,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Addresses, mappings and locked bytes of a program that has only the C library.
const BASE_ADDRESSES: u64 = 4 << 20;
const BASE_MAPPINGS: u64 = 25;

/// glibc's stack size if RLIMIT_STACK is unlimited.
const UNLIMITED_STACK_BYTES: u64 = 2 << 20;

const PAGE_BYTES: u64 = 4096;

/// Computes the answer, and prints it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let seen = Seen::examine(args.pid).with_context(|| match args.pid {
        Some(pid) => format!("cannot look at process {pid}"),
        None => "cannot look at /proc/self".into(),
    })?;
    let process = process(&args, &seen);
    let learnt = match args.known.stack(Costs { tls: args.tls.0, ..Costs::here() })? {
        Ok(learnt) => learnt,
        Err(why) => {
            message::print(&why);
            return Ok(ExitCode::from(125));
        }
    };
    let threads = threads(&args, &seen, learnt);
    let room = room(&args, &seen, &process, &threads);
    let verdict = judge(args.threads, &threads, &process, &room);
    let helps =
        if verdict.fits() { Vec::new() } else { helps(&args, &threads, &process, &room, learnt) };
    let fits = verdict.fits();
    let answer = Answer {
        count: args.threads,
        more: args.pid.is_some(),
        threads: &threads,
        verdict: &verdict,
        seen: &seen,
        helps,
        note: (process.bits == 32 && args.limit.is_none()).then_some(
            "A 32-bit program is taken to have 4 GiB of addresses, as under a 64-bit kernel; \
             under a 32-bit one it has 3 GiB as a rule: --limit 3G.",
        ),
    };
    if args.json {
        writeln!(std::io::stdout(), "{}", answer.json()?)?;
    } else {
        answer.print(&mut anstream::stdout())?;
    }
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn process(args: &Args, seen: &Seen) -> Process {
    let own = args.pid.is_none();
    let variable = || std::env::var("MALLOC_ARENA_MAX").ok()?.parse().ok().filter(|_| own);
    let bits = args.bits.as_ref().and_then(|bits| bits.parse().ok());
    Process {
        bits: bits.unwrap_or_else(|| if own { 64 } else { seen.bits() }),
        cpus: seen.cpus(),
        arena_max: args.arena_max.or_else(variable).filter(|&most| most > 0),
        addresses: match args.base {
            Some(Size(bytes)) => bytes,
            None if own => BASE_ADDRESSES,
            None => seen.addresses(),
        },
        mappings: if own { BASE_MAPPINGS } else { seen.mappings().unwrap_or(BASE_MAPPINGS) },
        locked: match args.base {
            _ if !args.memlock => 0,
            Some(Size(bytes)) => bytes,
            None if own => BASE_ADDRESSES,
            None => seen.locked(),
        },
        locks: args.memlock,
    }
}

fn threads(args: &Args, seen: &Seen, learnt: Option<u64>) -> Threads {
    let plain = Threads {
        stack: 0,
        guard: pages(args.guard.0),
        tls: args.tls.0,
        signal_stack: None,
        malloc: !args.no_malloc,
    };
    match args.stack {
        Some(Stack::Bytes(bytes)) => Threads { stack: pages(bytes), ..plain },
        Some(Stack::Auto) => fitted(&plain, learnt),
        None if learnt.is_some() => fitted(&plain, learnt),
        None => {
            let limit = seen.limit("Max stack size").unwrap_or(UNLIMITED_STACK_BYTES);
            Threads { stack: pages(limit), ..plain }
        }
    }
}

/// Threads as TEK makes them: from their profile, or else with stacks for little use.
fn fitted(threads: &Threads, learnt: Option<u64>) -> Threads {
    let guard = u64::from(!memory::has_light_guards());
    let costs = Costs { tls: threads.tls, ..Costs::here() };
    Threads {
        stack: learnt.unwrap_or_else(|| costs.in_pages(costs.floor())),
        signal_stack: Some((costs.signal_stack() + costs.page, 1 + guard)),
        ..threads.clone()
    }
}

fn pages(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

fn room(args: &Args, seen: &Seen, process: &Process, threads: &Threads) -> Vec<Available> {
    let mut room = vec![(Resource::Stack, Some(threads.stack))];
    if let Some(Size(bytes)) = args.limit {
        room.push((Resource::Limit, Some(bytes)));
    }
    let rlimit_as = seen.limit("Max address space");
    if args.rlimit_as || rlimit_as.is_some() {
        room.push((Resource::RlimitAs, rlimit_as));
    }
    room.push((Resource::WordSize, Some(if process.bits == 32 { 1 << 32 } else { 1 << 47 })));
    if args.memlock {
        room.push((Resource::Memlock, seen.memlock()));
    }
    room.extend(seen.system());
    room
}

/// TEK's help, and how many threads would fit then.
fn helps(
    args: &Args,
    threads: &Threads,
    process: &Process,
    room: &[Available],
    learnt: Option<u64>,
) -> Vec<Help> {
    let fitted = fitted(threads, learnt);
    let one_arena = Process { arena_max: Some(1), ..process.clone() };
    let can_fit = threads.signal_stack.is_none() && fitted.stack < threads.stack;
    let can_limit = threads.malloc && process.arenas().1 > 0;
    let room: Vec<_> =
        room.iter().copied().filter(|(resource, _)| *resource != Resource::Stack).collect();
    let most = |threads, process| judge(args.threads, threads, process, &room).most();
    let now = most(threads, process);
    let mut helps = Vec::new();
    let mut add = |how: &str, most| {
        if most > now {
            helps.push(Help { how: how.into(), most });
        }
    };
    if can_fit {
        add("tek run --stack auto", most(&fitted, process));
    }
    if can_limit {
        add("tek run --arena-max 1", most(threads, &one_arena));
    }
    if can_fit && can_limit {
        add("tek run --stack auto --arena-max 1", most(&fitted, &one_arena));
    }
    helps
}

/// The name of a resource, for scripts and for people. Overcommit and the like are the kernel's
/// names.
fn names(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::Limit => ("limit", "addresses, of --limit: stacks, guards, malloc's arenas"),
        Resource::RlimitAs => ("rlimit-as", "addresses, of RLIMIT_AS"),
        Resource::WordSize => ("word-size", "addresses that the program's word size allows"),
        Resource::Memlock => ("memlock", "locked memory, of RLIMIT_MEMLOCK"),
        Resource::Mappings => ("mappings", "mappings, of vm.max_map_count"),
        Resource::ThreadsMax => ("threads-max", "threads of the system, of kernel.threads-max"),
        Resource::PidMax => ("pid-max", "ids, of kernel.pid_max"),
        Resource::PidsMax => ("pids-max", "threads of the control group, of pids.max"),
        Resource::Nproc => ("nproc", "threads of the user, of RLIMIT_NPROC"),
        Resource::Memory => ("memory", "memory: kernel stacks, and what a stack uses"),
        Resource::Commit => ("commit", "memory that may be committed"),
        Resource::Stack => ("stack", "one stack: thread control block and static TLS"),
    }
}

/// Whether a resource is counted in bytes.
fn is_size(resource: Resource) -> bool {
    !matches!(
        resource,
        Resource::Mappings
            | Resource::ThreadsMax
            | Resource::PidMax
            | Resource::PidsMax
            | Resource::Nproc
    )
}
