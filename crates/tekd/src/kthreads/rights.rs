// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a task that waits may lift the thread that it waits for.
//!
//! A task lifts threads of its own process. It lifts a thread of another process only if one grant
//! covers both processes and both have the same user. What programs write into their memory is no
//! right: a lock that names a thread of another process counts only if that process maps the same
//! memory, as the kernel reports (maps.rs).
use super::maps::{Maps, Question};
use crate::domain::Domain;
use crate::originals::Originals;
use crate::process::{self, Person, Status};
use crate::requester::requester;
use std::collections::HashMap;
use tek_bpf::{Evidence, Member};
use tek_policy::Configuration;

/// An answer is valid for this time: the processes may execute other programs.
const VALID_NS: u64 = 1_000_000_000;
/// For so much longer an answer about memory is used, while it is asked for again.
const STALE_NS: u64 = 10_000_000_000;
/// With more answers than this, all are removed.
const MOST_ANSWERS: usize = 1024;

/// Whether a task may lift a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    Yes,
    No,
    /// The answer to this question comes later.
    Asked(Question),
}

impl Right {
    fn when(is_allowed: bool) -> Self {
        match is_allowed {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

/// The configuration, and earlier answers.
pub struct Rights {
    domain: Domain,
    configuration: Configuration,
    maps: Maps,
    /// About a waiter's process and another one: when, and whether.
    grants: HashMap<(i32, i32), (u64, bool)>,
    /// About memory of both.
    shared: HashMap<Question, (u64, bool)>,
}

impl Rights {
    pub fn new(domain: Domain, configuration: Configuration, maps: Maps) -> Self {
        Self { domain, configuration, maps, grants: HashMap::new(), shared: HashMap::new() }
    }

    /// Applies another configuration.
    pub fn change(&mut self, configuration: Configuration) {
        self.configuration = configuration;
        self.grants.clear();
    }

    /// Whether tekd may change the threads of a process.
    pub fn holds(&self, process: i32) -> bool {
        let protected = &self.configuration.protected;
        self.domain.check(process, protected, &Originals::default()).is_ok()
    }

    /// Forgets the answers about a process.
    pub fn forget(&mut self, process: i32) {
        self.grants.retain(|(waiter, owner), _| ![*waiter, *owner].contains(&process));
        self.shared.retain(|question, _| !question.is_about(process));
    }

    /// Keeps the answer to a question about memory.
    pub fn note(&mut self, question: Question, answer: bool, now_ns: u64) {
        keep(&mut self.shared, question, (now_ns, answer));
    }

    /// Whether a waiter may lift a thread. `owner` is the process of the thread, if the BPF
    /// programs reported it. `lock` is the address of the lock in the waiter's process.
    pub fn may_lift(
        &mut self,
        waiter: Member,
        thread: i32,
        owner: Option<i32>,
        evidence: Evidence,
        lock: Option<u64>,
        now_ns: u64,
    ) -> Right {
        let Some(owner) = owner.or_else(|| Some(process::of_thread(thread)?.tid)) else {
            return Right::No;
        };
        // The id is from the past, and may belong to another thread.
        if !process::has_thread(owner, thread) || !self.is_granted(waiter.process, owner, now_ns) {
            return Right::No;
        }
        if owner == waiter.process || evidence != Evidence::Foreign {
            return Right::Yes;
        }
        let Some(lock) = lock else { return Right::No };
        self.share(Question::new(waiter.process, owner, lock), now_ns)
    }

    fn is_granted(&mut self, waiter: i32, owner: i32, now_ns: u64) -> bool {
        if let Some((at, answer)) = self.grants.get(&(waiter, owner)) {
            if now_ns.saturating_sub(*at) < VALID_NS {
                return *answer;
            }
        }
        let answer = self.holds(owner)
            && (owner == waiter || self.holds(waiter) && self.have_one_grant(waiter, owner));
        keep(&mut self.grants, (waiter, owner), (now_ns, answer));
        answer
    }

    fn share(&mut self, question: Question, now_ns: u64) -> Right {
        let known = self.shared.get(&question).map(|(at, answer)| (now_ns - at, *answer));
        match known {
            Some((age, answer)) if age < VALID_NS => Right::when(answer),
            Some((age, answer)) if age < STALE_NS => {
                self.maps.ask(question);
                Right::when(answer)
            }
            _ if self.maps.ask(question) => Right::Asked(question),
            _ => Right::No,
        }
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

/// Keeps an answer; the number of all is bounded.
fn keep<K: Eq + std::hash::Hash>(all: &mut HashMap<K, (u64, bool)>, key: K, answer: (u64, bool)) {
    if all.len() >= MOST_ANSWERS {
        all.clear();
    }
    all.insert(key, answer);
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

    fn rights(text: &str) -> Rights {
        rights_in(&format!("pid:{}", own()), &format!("protected = []\n{text}"))
    }

    fn rights_in(domain: &str, text: &str) -> Rights {
        let mut read = read_configuration(text, "tekd.toml").unwrap();
        read.resolve(|_| None, |_| None);
        Rights::new(Domain::new(vec![domain.parse().unwrap()]), read, Maps::none())
    }

    /// A process of the domain: tekd's own is in none.
    struct Program(Child);

    impl Program {
        fn start(name: &str, arguments: &[&str]) -> Self {
            let this = Self(Command::new(name).args(arguments).spawn().unwrap());
            while Status::of(this.pid()).unwrap().name() != name {}
            this
        }

        fn sleep() -> Self {
            Self::start("sleep", &["60"])
        }

        fn pid(&self) -> i32 {
            self.0.id() as i32
        }

        fn may_lift(
            &self,
            rights: &mut Rights,
            thread: i32,
            evidence: Evidence,
            lock: Option<u64>,
        ) -> bool {
            let waiter = Member { tid: self.pid(), process: self.pid(), priority: 30, via: false };
            let owner = (thread != self.pid()).then_some(thread);
            rights.may_lift(waiter, thread, owner, evidence, lock, NOW) == Right::Yes
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_task_lifts_threads_of_its_own_process_and_no_thread_that_is_gone() {
        let mut rights = rights("[[grant]]\nusers = [\"nobody\"]");
        let waiter = Program::sleep();
        let mut lifts = |thread| waiter.may_lift(&mut rights, thread, Evidence::Found, None);
        assert!(lifts(waiter.pid()));
        assert!(!lifts(1) && !lifts(i32::MAX) && !lifts(0));
    }

    #[test]
    fn a_process_that_becomes_protected_lifts_no_thread_of_its_own() {
        let waiter = Program::sleep();
        let mut rights = rights_in("device", "protected = []");
        let lifts = |rights: &mut _| waiter.may_lift(rights, waiter.pid(), Evidence::Found, None);
        assert!(lifts(&mut rights));
        let text = "protected = [\"sleep\"]";
        rights.change(read_configuration(text, "tekd.toml").unwrap());
        assert!(!lifts(&mut rights));
    }

    #[test]
    fn a_task_lifts_threads_of_other_processes_under_the_same_grant_only() {
        let (waiter, owner) = (Program::start("tail", &["-f", "/dev/null"]), Program::sleep());
        let pid = owner.pid();
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        assert!(waiter.may_lift(&mut every, pid, Evidence::Found, None));
        assert!(waiter.may_lift(&mut every, pid, Evidence::Guessed, Some(0x1000)));
        let mut none = rights("[[grant]]\nprograms = [\"/no/such/program\"]");
        assert!(!waiter.may_lift(&mut none, pid, Evidence::Found, None));
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let two =
            format!("[[grant]]\nprograms = [\"{}\"]\n[[grant]]\nusers = [\"*\"]", path.display());
        assert!(!waiter.may_lift(&mut rights(&two), pid, Evidence::Found, None));
    }

    #[test]
    fn a_process_outside_the_domain_is_left_alone() {
        let waiter = Program::sleep();
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        let parent = Status::of(own()).unwrap().parent().unwrap();
        for outside in [parent, own(), 1] {
            assert!(!waiter.may_lift(&mut every, outside, Evidence::Found, None));
        }
    }

    #[test]
    fn a_lock_that_names_a_thread_of_another_process_waits_for_the_answer_about_memory() {
        let (waiter, owner) = (Program::sleep(), Program::sleep());
        let mut every = rights("[[grant]]\nusers = [\"*\"]");
        let lifts =
            |rights: &mut _, lock| waiter.may_lift(rights, owner.pid(), Evidence::Foreign, lock);
        assert!(!lifts(&mut every, None) && !lifts(&mut every, Some(0x1000)));
        let question = Question::new(waiter.pid(), owner.pid(), 0x1008);
        for answer in [true, false] {
            every.note(question, answer, NOW);
            assert_eq!(lifts(&mut every, Some(0x1010)), answer);
            assert!(!lifts(&mut every, Some(0x2010)));
        }
    }
}
