// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of the threads to show.
use super::thread::Thread;
use clap::ValueEnum;
use std::collections::HashSet;
use tek_model::{Detail, Device};
use tek_policy::{Glob, Invalid, Subject};

/// All that is given must fit; of an option that is given more than once, one.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Which threads")]
pub struct Filter {
    /// Threads of this process (list: 1,2,3)
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = number)]
    pub pid: Vec<u32>,
    /// This thread (list: 1,2,3)
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = number)]
    tid: Vec<u32>,
    /// Threads of programs with such a name (shell pattern)
    #[arg(long, value_name = "GLOB", value_parser = name)]
    program: Vec<Glob>,
    /// Threads with such a name (shell pattern)
    #[arg(long, value_name = "GLOB", value_parser = name)]
    name: Vec<Glob>,
    /// Threads with such a role (shell pattern)
    #[arg(long, value_name = "GLOB", value_parser = role)]
    role: Vec<Glob>,
    /// Threads in the Fast Region, or those that are not
    #[arg(long)]
    region: Option<Region>,
    /// Threads of the kernel only
    #[arg(long, conflicts_with = "no_kernel")]
    kernel: bool,
    /// No threads of the kernel
    #[arg(long)]
    no_kernel: bool,
    /// User-level threads only
    #[arg(long, conflicts_with = "no_uthreads")]
    uthreads: bool,
    /// No user-level threads
    #[arg(long)]
    no_uthreads: bool,
    /// Threads that TEK knows only
    #[arg(long)]
    tracked: bool,
}

fn number(text: &str) -> Result<u32, &'static str> {
    text.parse()
        .map_err(|_| "write a number such as 815, or several: 815,816 (--name goes by names)")
}

/// Of a program, or of a thread: the kernel's have longer names than other threads can.
fn name(text: &str) -> Result<Glob, Invalid> {
    Glob::new(text, Subject::Program)
}

fn role(text: &str) -> Result<Glob, Invalid> {
    Glob::new(text, Subject::Role)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Region {
    Fast,
    None,
}

impl Filter {
    /// Whether a thread is to be shown.
    pub fn fits(&self, thread: &Thread) -> bool {
        let stat = &thread.task.stat;
        among(&self.pid, thread.pid)
            && among(&self.tid, stat.tid)
            && is_one(&self.program, &thread.program)
            && is_one(&self.name, &stat.name)
            && fits_one(&self.role, || thread.role())
            && self.region.is_none_or(|region| (region == Region::Fast) == thread.is_fast())
            && (!self.kernel || stat.kernel)
            && !(self.no_kernel && stat.kernel)
            && (!self.uthreads || thread.user.is_some())
            && !(self.no_uthreads && thread.user.is_some())
            && (!self.tracked || thread.task.record.is_some())
    }

    /// A sentence on each process and thread that was requested by number and does not exist, and
    /// whether nothing is left to show.
    pub fn missing(&self, device: &Device) -> (Vec<String>, bool) {
        let is_there = |pid| device.programs.iter().any(|program| program.pid == pid);
        let tids: HashSet<u32> = match self.tid.is_empty() {
            true => HashSet::new(),
            false => device.programs.iter().flat_map(|p| &p.tasks).map(|t| t.stat.tid).collect(),
        };
        let pids: Vec<_> = self.pid.iter().copied().filter(|&pid| !is_there(pid)).collect();
        let tids: Vec<_> = self.tid.iter().copied().filter(|tid| !tids.contains(tid)).collect();
        let all =
            |named: &[u32], missing: &[u32]| !named.is_empty() && named.len() == missing.len();
        let nothing = all(&self.pid, &pids) || all(&self.tid, &tids);
        let among = if self.pid.is_empty() { "" } else { " in the processes of --pid" };
        let processes = pids.into_iter().map(|pid| match Detail::of(pid) {
            Ok(thread) if thread.pid != pid => format!("{pid} is a thread of {}", thread.pid),
            _ => format!("there is no process {pid}"),
        });
        let threads = tids.into_iter().map(|tid| format!("there is no thread {tid}{among}"));
        (processes.chain(threads).collect(), nothing)
    }

    /// Whether certain processes or threads are requested, which may not exist.
    pub fn names_one(&self) -> bool {
        !self.pid.is_empty() || !self.tid.is_empty()
    }
}

fn among(numbers: &[u32], number: u32) -> bool {
    numbers.is_empty() || numbers.contains(&number)
}

fn is_one(globs: &[Glob], name: &str) -> bool {
    globs.is_empty() || globs.iter().any(|glob| glob.matches_task(name.as_bytes()))
}

fn fits_one(globs: &[Glob], text: impl FnOnce() -> Option<String>) -> bool {
    globs.is_empty()
        || text().is_some_and(|text| globs.iter().any(|glob| glob.matches(text.as_bytes())))
}
