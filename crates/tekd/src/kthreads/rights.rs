// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a task that waits may lift the thread that it waits for.
//!
//! A task lifts threads of its own process. It lifts a thread of another process only if one grant
//! covers both processes and both have the same user. What programs write into their memory is no
//! right: a lock that names a thread of another process counts only if that process maps the same
//! memory, as the kernel reports.
use crate::domain::Domain;
use crate::originals::Originals;
use crate::process::{self, Person, Status};
use crate::requester::requester;
use std::collections::HashMap;
use std::fs;
use tek_bpf::{Evidence, Member};
use tek_policy::Configuration;
use tek_procfs::path;

/// An answer is valid for this time: the processes may execute other programs.
const VALID_NS: u64 = 1_000_000_000;
/// With more answers than this, all are removed.
const MOST_ANSWERS: usize = 1024;

/// A pair of processes, and the page of the lock that both map, if there is one.
type Question = (i32, i32, Option<u64>);

/// The configuration, and earlier answers.
pub struct Rights {
    domain: Domain,
    configuration: Configuration,
    answers: HashMap<Question, (u64, bool)>,
}

impl Rights {
    pub fn new(domain: Domain, configuration: Configuration) -> Self {
        Self { domain, configuration, answers: HashMap::new() }
    }

    /// Applies another configuration.
    pub fn change(&mut self, configuration: Configuration) {
        self.configuration = configuration;
        self.answers.clear();
    }

    /// Whether tekd may change the threads of a process.
    pub fn holds(&self, process: i32) -> bool {
        let protected = &self.configuration.protected;
        self.domain.check(process, protected, &Originals::default()).is_ok()
    }

    /// Forgets the answers about a process.
    pub fn forget(&mut self, process: i32) {
        self.answers.retain(|(waiter, owner, _), _| ![*waiter, *owner].contains(&process));
    }

    /// Whether a waiter may lift a thread. `owner` is the process of the thread, if the programs
    /// know it. `lock` is the address of the lock in the waiter's process.
    pub fn may_lift(
        &mut self,
        waiter: Member,
        thread: i32,
        owner: Option<i32>,
        evidence: Evidence,
        lock: Option<u64>,
        now_ns: u64,
    ) -> bool {
        let Some(owner) = owner.or_else(|| Some(process::of_thread(thread)?.tid)) else {
            return false;
        };
        // The id is from the past, and may belong to another thread.
        if !process::has_thread(owner, thread) {
            return false;
        }
        if owner == waiter.process {
            return true;
        }
        let page = lock.filter(|_| evidence == Evidence::Foreign).map(|lock| lock & !0xfff);
        let question = (waiter.process, owner, page);
        if let Some((at, answer)) = self.answers.get(&question) {
            if now_ns.saturating_sub(*at) < VALID_NS {
                return *answer;
            }
        }
        let answer = (evidence != Evidence::Foreign || page.is_some())
            && page.is_none_or(|page| map_the_same(waiter.process, owner, page))
            && self.holds(owner)
            && self.have_one_grant(waiter.process, owner);
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.clear();
        }
        self.answers.insert(question, (now_ns, answer));
        answer
    }

    /// Whether one grant covers both processes, and both have one user.
    fn have_one_grant(&self, waiter: i32, owner: i32) -> bool {
        let of = |pid: i32| {
            let person = Person::of(pid, &Status::of(pid).ok()?)?;
            let cgroups = match self.configuration.names_cgroups() {
                true => process::cgroups(pid),
                false => Vec::new(),
            };
            let requester = requester(pid, &person, &self.configuration, cgroups);
            let grants = &self.configuration.grants;
            Some((person.uid, grants.iter().position(|grant| grant.is_for(&requester))?))
        };
        let its = of(waiter);
        its.is_some() && its == of(owner)
    }
}

/// Whether two processes share the memory at an address of the first one.
fn map_the_same(first: i32, second: i32, address: u64) -> bool {
    let maps = |pid: i32| path(pid, "maps").and_then(fs::read_to_string).unwrap_or_default();
    let (own, theirs) = (maps(first), maps(second));
    let Some(mapped) = own.lines().filter_map(Mapping::parse).find(|it| it.has(address)) else {
        return false;
    };
    let offset = mapped.offset + (address - mapped.start);
    theirs.lines().filter_map(Mapping::parse).any(|it| it.has_file(&mapped, offset))
}

/// Shared memory, from a line of /proc/PID/maps.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    /// Device and inode.
    file: (&'a str, &'a str),
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let is_shared = fields.next()?.ends_with('s');
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(fields.next()?)?);
        let file = (fields.next()?, fields.next()?);
        (is_shared && file.1 != "0").then_some(Self { start, end, offset, file })
    }

    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn has_file(&self, other: &Self, offset: u64) -> bool {
        let covered = self.offset..self.offset.saturating_add(self.end - self.start);
        self.file == other.file && covered.contains(&offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use tek_policy::read_configuration;

    const NOW: u64 = 5_000_000_000;

    fn own() -> i32 {
        std::process::id() as i32
    }

    fn own_thread() -> Member {
        Member { tid: own(), process: own(), priority: 30, via: false }
    }

    fn rights(text: &str) -> Rights {
        let text = format!("protected = []\n{text}");
        let mut read = read_configuration(text, "tekd.toml").unwrap();
        read.resolve(|_| None, |_| None);
        Rights::new(Domain::new(vec![format!("pid:{}", own()).parse().unwrap()]), read)
    }

    fn sleep() -> (Child, i32) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        while Status::of(pid).unwrap().name() != "sleep" {}
        (child, pid)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn may(rights: &mut Rights, pid: i32, evidence: Evidence, lock: Option<u64>) -> bool {
        rights.may_lift(own_thread(), pid, Some(pid), evidence, lock, NOW)
    }

    #[test]
    fn a_task_lifts_threads_of_its_own_process_and_no_thread_that_is_gone() {
        let mut rights = rights("[[grant]]\nusers = [\"nobody\"]");
        let own_tid = nix::unistd::gettid().as_raw();
        let mut lifts =
            |tid, owner| rights.may_lift(own_thread(), tid, owner, Evidence::Found, None, NOW);
        assert!(lifts(own_tid, Some(own())) && lifts(own_tid, None));
        assert!(!lifts(1, Some(own())) && !lifts(i32::MAX, None) && !lifts(0, None));
    }

    #[test]
    fn a_task_lifts_threads_of_other_processes_under_the_same_grant_only() {
        let (child, pid) = sleep();
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        assert!(may(&mut every, pid, Evidence::Found, None));
        assert!(may(&mut every, pid, Evidence::Guessed, Some(0x1000)));
        let mut none = rights("[[grant]]\nprograms = [\"/no/such/program\"]");
        assert!(!may(&mut none, pid, Evidence::Found, None));
        let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let two =
            format!("[[grant]]\nprograms = [\"{}\"]\n[[grant]]\nusers = [\"*\"]", path.display());
        assert!(!may(&mut rights(&two), pid, Evidence::Found, None));
        end(child);
    }

    #[test]
    fn a_process_outside_the_domain_is_left_alone() {
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        let parent = Status::of(own()).unwrap().parent().unwrap();
        assert!(!may(&mut every, parent, Evidence::Found, None));
        assert!(!may(&mut every, 1, Evidence::Found, None));
    }

    #[test]
    fn a_lock_that_names_a_thread_of_another_process_counts_in_common_memory_only() {
        let (child, pid) = sleep();
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        let private = [0u8; 8];
        let address = Some(private.as_ptr() as u64);
        assert!(!may(&mut every, pid, Evidence::Foreign, address));
        assert!(!may(&mut every, pid, Evidence::Foreign, None));
        assert!(!may(&mut every, pid, Evidence::Foreign, Some(0xdead_0000)));
        end(child);
    }

    #[test]
    fn lines_of_maps_are_compared_by_file_and_offset() {
        let line = |text| Mapping::parse(text);
        let shared = line("7f00-9f00 rw-s 00001000 00:01 42 /dev/shm/a").unwrap();
        let same = line("1000-2000 rw-s 00001800 00:01 42 /dev/shm/a").unwrap();
        let other = line("1000-2000 rw-s 00001800 00:01 43 /dev/shm/b").unwrap();
        assert!(shared.has(0x7f00) && !shared.has(0x9f00));
        assert!(same.has_file(&shared, 0x1800) && !same.has_file(&shared, 0x17ff));
        assert!(!same.has_file(&shared, 0x2800) && !other.has_file(&shared, 0x1800));
        assert!(line("7f00-9f00 rw-p 00001000 00:01 42 /dev/shm/a").is_none());
        assert!(line("7f00-9f00 rw-s 00000000 00:00 0").is_none());
    }
}
