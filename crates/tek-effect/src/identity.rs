// SPDX-License-Identifier: MIT OR Apache-2.0
//! The identity of a thread.
use crate::{sys, watched, Error};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;
use tek_abi::TimeOffsets;
use tek_procfs::{path, thread_path};

/// More than 52 numbers and a name have.
const STAT_BYTES: usize = 2048;

/// More bytes than the needed lines of /proc/TID/status take, which are its first.
const STATUS_BYTES: usize = 1024;

/// Three numbers.
const SCHEDSTAT_BYTES: usize = 128;

/// The kernel's PF_EXITING.
const EXITING: u32 = 4;
/// The kernel's PF_KTHREAD, and PF_NO_SETAFFINITY, which is of threads that stay where they are.
const OF_KERNEL: u32 = 0x0020_0000;
const STAYS: u32 = 0x0400_0000;

/// A thread, and no later one that got its id.
///
/// The kernel reports start times in clock ticks (usually 10 ms). A thread that ends is not
/// distinguishable from a successor that gets its id within the same tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Kernel thread id, in this pid namespace.
    pub tid: i32,
    /// When it began, in clock ticks since boot: field 22 of /proc/TID/stat as in the initial time
    /// namespace.
    pub start_ticks: u64,
}

impl Identity {
    /// The thread that has this id now. [`Error::Gone`] if there is none, or it is ending.
    pub fn of(tid: i32) -> Result<Self, Error> {
        match Stat::of(tid)? {
            Some(stat) if stat.runs() => Ok(Self { tid, start_ticks: stat.start_ticks }),
            _ => Err(Error::Gone { tid }),
        }
    }

    /// The thread of this id, if it is one of that process. [`Error::Gone`] if it is not, or is
    /// ending.
    pub fn of_thread_of(pid: i32, tid: i32) -> Result<Self, Error> {
        match Stat::at(pid, tid)? {
            Some(stat) if stat.runs() => Ok(Self { tid, start_ticks: stat.start_ticks }),
            _ => Err(Error::Gone { tid }),
        }
    }

    /// The process that has this id now; its first thread may have ended. [`Error::Gone`] if there
    /// is none.
    pub fn of_process(pid: i32) -> Result<Self, Error> {
        match Stat::of(pid)? {
            Some(stat) if stat.is_of_process() => {
                Ok(Self { tid: pid, start_ticks: stat.start_ticks })
            }
            _ => Err(Error::Gone { tid: pid }),
        }
    }

    /// Whether the thread has not ended. A zombie, or a thread that is about to end, is not there.
    /// A thread that cannot be checked, for want of descriptors or memory, counts as there.
    pub fn is_there(self) -> bool {
        !matches!(self.check(), Err(Error::Gone { .. }))
    }

    /// What [`watched`] knows it by.
    pub(crate) fn key(self) -> watched::Key {
        (self.tid, self.start_ticks)
    }

    /// As `is_there`, as a result.
    pub(crate) fn check(self) -> Result<(), Error> {
        match watched::is_there(self.key()) {
            true => Ok(()),
            false => self.check_that(Stat::runs),
        }
    }

    /// Whether it is the kernel's own, or works for it, so that its group is not to be changed.
    pub(crate) fn is_of_kernel(self) -> bool {
        let stat = Stat::of(self.tid).ok().flatten();
        stat.filter(|stat| self.is_start_of(stat))
            .is_some_and(|stat| stat.flags & (OF_KERNEL | STAYS) != 0)
    }

    /// Whether the process of this first thread still exists; the first thread may have ended.
    pub(crate) fn process_is_there(self) -> bool {
        !matches!(self.check_process(), Err(Error::Gone { .. }))
    }

    /// The start address of the first stack, where this is the first thread of its process. The
    /// address differs in each program that the process executes.
    pub fn stack_start(self) -> Result<u64, Error> {
        match Stat::of(self.tid)? {
            Some(stat) if self.is_start_of(&stat) => Ok(stat.stack),
            _ => Err(Error::Gone { tid: self.tid }),
        }
    }

    /// As `check`, for the process of this first thread; the first thread may have ended.
    pub fn check_process(self) -> Result<(), Error> {
        self.check_that(Stat::is_of_process)
    }

    /// Whether a thread with its id and this stat began when it did.
    fn is_start_of(self, stat: &Stat) -> bool {
        self.start_ticks.abs_diff(stat.start_ticks) <= ROUNDED_TICKS.get()
    }

    fn check_that(self, is_there: impl FnOnce(&Stat) -> bool) -> Result<(), Error> {
        match Stat::of(self.tid)? {
            Some(stat) if self.is_start_of(&stat) && is_there(&stat) => Ok(()),
            _ => Err(Error::Gone { tid: self.tid }),
        }
    }

    /// As `check`, after an operation on the thread that has the id. If another thread has the id
    /// now, calls `make_good` first.
    pub(crate) fn check_after(self, make_good: impl FnOnce()) -> Result<(), Error> {
        if watched::is_there(self.key()) {
            return Ok(());
        }
        match Stat::of(self.tid)? {
            Some(stat) if self.is_start_of(&stat) && stat.runs() => return Ok(()),
            Some(stat) if !self.is_start_of(&stat) && !takes_over(self.tid, stat.start_ticks) => {
                make_good();
            }
            _ => {}
        }
        Err(Error::Gone { tid: self.tid })
    }
}

thread_local! {
    /// Highest difference between the start times of one thread that two readers report.
    static ROUNDED_TICKS: Cell<u64> = const { Cell::new(0) };
}

/// Calls `act` with identities that another reader recorded. In a time namespace with an offset
/// that is no multiple of a clock tick, that reader may have rounded start times up.
pub(crate) fn of_another_reader<T>(act: impl FnOnce() -> T) -> T {
    let before = ROUNDED_TICKS.replace(1);
    let result = act();
    ROUNDED_TICKS.set(before);
    result
}

/// Whether a thread with this present start time is about to become the first of its process after
/// an exec: it takes over the first thread's start time, and then the first thread's id.
fn takes_over(tid: i32, start_ticks: u64) -> bool {
    // A thread that is the first by now has the first thread's id: no thread has this id.
    let Ok(process) = process_of(tid) else { return true };
    let first = || Stat::of(process).ok().flatten();
    process != tid && first().is_some_and(|first| first.start_ticks == start_ticks)
}

/// The program of a process. A thread that executes a program becomes the first of its process: it
/// takes the id and start time of the first thread, but keeps its own policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    process: Identity,
    /// The start address of its first stack, which differs in each executed program.
    stack: u64,
}

impl Program {
    /// The program of a thread; `None` if it is the first one, which keeps its id.
    pub(crate) fn of_other_thread(tid: i32) -> Result<Option<Self>, Error> {
        // Asked first, because it takes a tenth of the time that a file does.
        match crate::sys::is_first_thread(tid) {
            true => Ok(None),
            false => Self::of_process_of(tid),
        }
    }

    fn of_process_of(tid: i32) -> Result<Option<Self>, Error> {
        match process_of(tid)? {
            process if process == tid => Ok(None),
            process => Self::of(process),
        }
    }

    fn of(process: i32) -> Result<Option<Self>, Error> {
        let program = |stat: Stat| Self {
            process: Identity { tid: process, start_ticks: stat.start_ticks },
            stack: stat.stack,
        };
        Ok(Stat::of(process)?.map(program))
    }

    /// The first thread of the process.
    pub(crate) fn process(self) -> Identity {
        self.process
    }

    fn is_of(self, now: &Self) -> bool {
        let apart = self.process.start_ticks.abs_diff(now.process.start_ticks);
        self.process.tid == now.process.tid && apart <= ROUNDED_TICKS.get()
    }

    /// Whether the process has executed another program since.
    pub(crate) fn is_executed_anew(self) -> Result<bool, Error> {
        let now = Self::of(self.process.tid)?;
        Ok(now.is_some_and(|now| self.is_of(&now) && now.stack != self.stack))
    }
}

/// Where the first stack of a process begins: at the same address in a child that has not executed
/// a program. `None`: there is no such process.
pub fn stack_of(pid: i32) -> Option<u64> {
    Stat::of(pid).ok().flatten().map(|stat| stat.stack)
}

/// The fields of /proc/TID/stat.
struct Stat {
    state: u8,
    flags: u32,
    threads: u32,
    start_ticks: u64,
    stack: u64,
}

impl Stat {
    /// `None`: there is no such thread.
    fn of(tid: i32) -> Result<Option<Self>, Error> {
        // What /proc/TID/stat says as well, which adds up all threads of the process for that.
        Self::at(tid, tid)
    }

    /// The same, only if it is a thread of that process (any of its threads names it).
    fn at(pid: i32, tid: i32) -> Result<Option<Self>, Error> {
        if tid <= 0 {
            return Ok(None);
        }
        match read_once(thread_path(pid, tid, "stat"), STAT_BYTES) {
            Ok(text) => Ok(Self::parse(&text).map(Self::in_initial_namespace)),
            // While it ends the file can still be opened.
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => Err(Error::thread(tid, "read /proc/TID/stat of", error)),
        }
    }

    /// The kernel tells its reader's.
    fn in_initial_namespace(mut self) -> Self {
        let offsets = TimeOffsets::own().unwrap_or_default();
        self.start_ticks = offsets.initial_ticks(self.start_ticks, sys::ticks_a_second());
        self
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The second field is a name in parentheses, which may hold any bytes; none follow it.
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Numbers of fields are those of proc(5), of which the first here is the third.
        Some(Self {
            state: *fields.first()?.as_bytes().first()?,
            flags: field(&fields, 9)?,
            threads: field(&fields, 20)?,
            start_ticks: field(&fields, 22)?,
            stack: field(&fields, 28).unwrap_or(0),
        })
    }

    /// Whether the process of this first thread still has a thread.
    fn is_of_process(&self) -> bool {
        self.runs() || self.threads > 1
    }

    fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') && self.flags & EXITING == 0
    }
}

/// A file of /proc, which comes whole by one read: this is done several times for each change.
fn read_once(path: io::Result<String>, most: usize) -> io::Result<Vec<u8>> {
    let mut text = vec![0; most];
    let length = File::open(path?)?.read(&mut text)?;
    text.truncate(length);
    Ok(text)
}

fn field<T: FromStr>(fields: &[&str], number: usize) -> Option<T> {
    fields.get(number - 3)?.parse().ok()
}

/// Whether the kernel reports that the thread does not exist or has ended.
pub(crate) fn is_none(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// A file of /proc about a thread, of any length.
pub(crate) fn read_all(tid: i32, name: &str) -> Result<String, Error> {
    let text = path(tid, name).and_then(std::fs::read).map_err(|error| match is_none(&error) {
        true => Error::Gone { tid },
        false => Error::thread(tid, format!("read /proc/TID/{name} of"), error),
    })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether a thread was never on a CPU, where the kernel counts that.
pub(crate) fn has_never_run(tid: i32) -> bool {
    let counted = read_once(path(tid, "schedstat"), SCHEDSTAT_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&counted).split_ascii_whitespace().nth(2) == Some("0")
}

/// The process of a thread.
pub(crate) fn process_of(tid: i32) -> Result<i32, Error> {
    status_number(tid, "Tgid:")
}

/// The process that a thread's process is a child of; 0: none.
pub fn parent_of(tid: i32) -> Result<i32, Error> {
    status_number(tid, "PPid:")
}

/// The real user of a thread.
pub(crate) fn user_of(tid: i32) -> Result<u32, Error> {
    status_number(tid, "Uid:")
}

/// The first number of a line.
fn status_number<T: FromStr>(tid: i32, name: &str) -> Result<T, Error> {
    let status =
        read_once(path(tid, "status"), STATUS_BYTES).map_err(|error| match is_none(&error) {
            true => Error::Gone { tid },
            false => Error::thread(tid, "read /proc/TID/status of", error),
        })?;
    let status = String::from_utf8_lossy(&status);
    let first = |line: &str| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok();
    let number = status.lines().find_map(first);
    number.ok_or(Error::Gone { tid })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "7 (a) R 1) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 98765 1 2";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = Stat::parse(TEXT.as_bytes()).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start_ticks), (b'S', 3, 98765));
        assert!(stat.runs());
    }

    #[test]
    fn the_process_is_stored_only_for_a_thread_other_than_the_first() {
        let own = std::process::id() as i32;
        assert!(Program::of_other_thread(own).unwrap().is_none());
        let other = std::thread::spawn(|| {
            let tid = nix::unistd::gettid().as_raw();
            Program::of_other_thread(tid).unwrap().unwrap().process().tid
        });
        assert_eq!(other.join().unwrap(), own);
        assert_eq!(parent_of(own).unwrap(), nix::unistd::getppid().as_raw());
    }

    #[test]
    fn a_start_time_that_another_reader_rounded_is_that_of_the_thread() {
        let own = Identity::of(std::process::id() as i32).unwrap();
        let rounded = |by: u64| Identity { start_ticks: own.start_ticks + by, ..own };
        assert!(!rounded(1).is_there());
        assert!(of_another_reader(|| rounded(1).is_there() && rounded(1).process_is_there()));
        assert!(!of_another_reader(|| rounded(2).is_there()));
        assert!(!rounded(1).is_there());
    }

    #[test]
    fn a_thread_is_found_in_its_own_process_only() {
        let own = std::process::id() as i32;
        assert_eq!(Identity::of_thread_of(own, own).unwrap(), Identity::of(own).unwrap());
        assert!(matches!(Identity::of_thread_of(own, 1), Err(Error::Gone { tid: 1 })));
        assert!(Identity::of_thread_of(1, own).is_err());
    }

    #[test]
    fn one_that_is_ending_does_not_run() {
        for (from, to) in [(") S", ") Z"), (") S", ") X"), ("4194560", "4194564")] {
            let text = TEXT.replace(from, to);
            assert!(!Stat::parse(text.as_bytes()).unwrap().runs(), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_cut_off_is_none() {
        for length in 0..TEXT.find("98765").unwrap() {
            assert!(Stat::parse(&TEXT.as_bytes()[..length]).is_none());
        }
    }
}
