// SPDX-License-Identifier: MIT OR Apache-2.0
//! The change of a process's limit: made and undone.
use crate::heirs::{tids_of, Births};
use crate::identity::{process_of, user_of};
use crate::limits::{Limits, Resource};
use crate::loan::{has_privilege, Right, CAP_SYS_RESOURCE};
use crate::policy::set_rule;
use crate::rule::{Rule, FIFO, RR};
use crate::sys;
use crate::{Error, Identity, Undone};
use serde::{Deserialize, Serialize};

/// A limit of a process, changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitChange {
    #[serde(rename = "who")]
    pub(crate) thread_id: Identity,
    pub(crate) resource: Resource,
    pub(crate) was: Limits,
    pub(crate) ours: Vec<Limits>,
    /// The process may raise hard limits by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) may_raise: bool,
    /// Of RLIMIT_RTPRIO, if that was raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) real_time: Option<RealTime>,
    /// To find children that inherit the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) births: Option<Births>,
}

/// Whether a thread has a policy by another change that is in force.
pub(crate) type Keeps<'a> = dyn Fn(i32, Rule) -> bool + 'a;

/// The real-time rights of a process before its RLIMIT_RTPRIO was raised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealTime {
    /// The highest priority that they could set by themselves.
    highest: u32,
    /// The real-time policies that some of them had.
    had: Vec<Rule>,
}

const ORDINARY: u32 = libc::SCHED_OTHER as u32;

/// After a limit was lowered, threads that had a real-time policy by it may have children with that
/// policy until they have lost it themselves. This is the highest number of passes over them.
const MOST_CHECKS: usize = 32;

impl LimitChange {
    pub(crate) fn planned(
        thread_id: Identity,
        resource: Resource,
        set: Limits,
    ) -> Result<Self, Error> {
        if set.soft > set.hard {
            let what =
                format!("a soft limit of {} is above the hard one of {}", set.soft, set.hard);
            return Err(Error::invalid(what, "raise the hard one, too"));
        }
        if process_of(thread_id.tid)? != thread_id.tid {
            let what = format!("{} is a thread, and limits are a process's", thread_id.tid);
            return Err(Error::invalid(what, "give the id of its process"));
        }
        let was = Limits::of(thread_id.tid, resource)?;
        let is_raised = set.hard > was.hard;
        let births = is_raised.then(|| Births::since_now(thread_id.tid)).transpose()?;
        let real_time = match resource {
            Resource::Rtprio if is_raised => Some(RealTime::of(thread_id.tid)?),
            _ => None,
        };
        let may_raise = has_privilege(thread_id.tid, CAP_SYS_RESOURCE)?;
        Self { thread_id, resource, was, ours: vec![set], may_raise, real_time, births }.checked()
    }

    pub(crate) fn act(&self) -> Result<(), Error> {
        self.ours.last().map_or(Ok(()), |&limits| self.set(limits))
    }

    /// The limit first, so that what depends on it cannot be set again. Threads keep policies that
    /// other changes gave them, as `keeps` says.
    pub(crate) fn undo(&self, keeps: &Keeps) -> Result<Undone, Error> {
        self.check()?;
        let undone = self.undo_limit()?;
        let taken = match &self.real_time {
            Some(real_time) => real_time.take_from(self.thread_id, &self.ours, keeps),
            None => Ok(()),
        };
        self.take_from_children(keeps);
        taken.map(|()| undone)
    }

    fn undo_limit(&self) -> Result<Undone, Error> {
        let present = Limits::of(self.thread_id.tid, self.resource)?;
        let own = self.limits_without(present);
        if own != present {
            self.set(own)?;
        }
        Ok(if own == self.was { Undone::Undone } else { Undone::Changed })
    }

    /// The limits of a process without the change. It may have lowered what was raised; a hard
    /// limit above what it had can only come from the change unless it is above that, too.
    fn limits_without(&self, present: Limits) -> Limits {
        if self.ours.contains(&present) {
            return self.was;
        }
        let highest = self.ours.iter().map(|ours| ours.hard).max().unwrap_or(0);
        let is_lent = present.hard > self.was.hard && present.hard <= highest;
        match is_lent && !self.may_raise {
            true => Limits { soft: present.soft.min(self.was.soft), hard: self.was.hard },
            false => present,
        }
    }

    /// The same for the children of the process that [`Births::each_process`] finds.
    pub(crate) fn take_from_children(&self, keeps: &Keeps) {
        let Some(births) = &self.births else { return };
        births.each_process(|process, _| {
            if process != self.thread_id {
                let _ = self.take_from_child(process, keeps); // it ends just now
            }
        });
    }

    /// The same for processes of a user, with any parent, that started since and have exactly the
    /// hard limit that was set. A process that has it by a change of its own keeps it.
    pub(crate) fn take_from_orphans(
        &self,
        uid: u32,
        keeps: &Keeps,
        has_own: impl Fn(Identity) -> bool,
    ) {
        let Some(births) = &self.births else { return };
        let is_ours = |thread_id: &Identity| {
            let inherits = |limits: Limits| self.ours.iter().any(|own| own.hard == limits.hard);
            Limits::of(thread_id.tid, self.resource).is_ok_and(inherits)
        };
        for orphan in births.all_processes() {
            if orphan != self.thread_id
                && is_ours(&orphan)
                && user_of(orphan.tid).is_ok_and(|its| its == uid)
                && !has_own(orphan)
            {
                let _ = self.take_from_child(orphan, keeps); // it ends just now
            }
        }
    }

    /// A child has what was there before, or less if it has lowered its limit.
    pub(crate) fn take_from_child(&self, child: Identity, keeps: &Keeps) -> Result<(), Error> {
        child.check_process()?;
        let present = Limits::of(child.tid, self.resource)?;
        let wanted =
            Limits { soft: present.soft.min(self.was.soft), hard: present.hard.min(self.was.hard) };
        let is_ours = self.ours.iter().any(|ours| ours.hard == present.hard);
        let is_inherited = is_ours || self.limits_without(present) != present;
        if is_inherited && wanted != present {
            Self { thread_id: child, was: present, ..self.clone() }.set(wanted)?;
        }
        match &self.real_time {
            Some(real_time) => real_time.take_from(child, &self.ours, keeps),
            None => Ok(()),
        }
    }

    fn set(&self, limits: Limits) -> Result<(), Error> {
        let failed = |source| {
            let tried =
                format!("set {:?} to {} of {} for", self.resource, limits.soft, limits.hard);
            Error::thread(self.thread_id.tid, tried, source)
        };
        self.check()?;
        let number = self.resource.number();
        let was = sys::set_limits(self.thread_id.tid, number, limits).map_err(failed)?;
        match self.thread_id.check_after(|| drop(sys::set_limits(self.thread_id.tid, number, was)))
        {
            Ok(()) => Ok(()),
            Err(_) => self.check(), // perhaps only its first thread ended
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.thread_id.check_process()
    }

    fn checked(self) -> Result<Self, Error> {
        self.check().map(|()| self)
    }

    pub(crate) fn is_sensible(&self) -> bool {
        self.thread_id.tid > 0
            && !self.ours.is_empty()
            && self.ours.iter().chain([&self.was]).all(|limits| limits.soft <= limits.hard)
    }
}

impl RealTime {
    fn of(pid: i32) -> Result<Self, Error> {
        let is_real_time = |rule: &Rule| matches!(rule.policy, FIFO | RR);
        let mut had: Vec<Rule> = Vec::new();
        for rule in threads(pid).filter_map(|tid| sys::rule(tid).ok()).filter(is_real_time) {
            if !had.contains(&rule) {
                had.push(rule);
            }
        }
        Ok(Self { highest: Right::of(pid)?.priority, had })
    }

    /// Takes away the policies that threads of a process have only by the limit.
    fn take_from(&self, thread_id: Identity, ours: &[Limits], keeps: &Keeps) -> Result<(), Error> {
        let highest = ours.iter().map(|ours| ours.hard).max().unwrap_or(0);
        for _ in 0..MOST_CHECKS {
            thread_id.check_process()?;
            let mut taken = false;
            for tid in threads(thread_id.tid) {
                let Ok(has) = sys::rule(tid) else { continue };
                if self.is_lent(has, highest) && !keeps(tid, has) {
                    let ordinary = Rule { policy: ORDINARY, priority: 0, ..has };
                    let failed = |source| Error::thread(tid, "give SCHED_OTHER to", source);
                    match set_rule(tid, has, ordinary).map_err(failed) {
                        Ok(()) => taken = true,
                        Err(Error::Gone { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            if !taken {
                return Ok(());
            }
        }
        Err(Error::Contended { tid: thread_id.tid })
    }

    fn is_lent(&self, rule: Rule, highest: u64) -> bool {
        matches!(rule.policy, FIFO | RR)
            && rule.priority > self.highest
            && u64::from(rule.priority) <= highest
            && !self.had.contains(&rule)
    }
}

fn threads(pid: i32) -> impl Iterator<Item = i32> {
    tids_of(pid).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::parent_of;
    use nix::sys::signal::{kill, Signal};
    use nix::unistd::Pid;
    use std::io::{BufRead, BufReader, Lines, Write};
    use std::process::{Child, ChildStdout, Command, Stdio};

    fn raised() -> LimitChange {
        LimitChange {
            thread_id: Identity { tid: 1, start_ticks: 0 },
            resource: Resource::Rtprio,
            was: Limits { soft: 5, hard: 10 },
            ours: vec![Limits { soft: 50, hard: 50 }],
            may_raise: false,
            real_time: None,
            births: None,
        }
    }

    fn without(change: &LimitChange, soft: u64, hard: u64) -> (u64, u64) {
        let own = change.limits_without(Limits { soft, hard });
        (own.soft, own.hard)
    }

    #[test]
    fn a_raised_limit_that_was_lowered_is_still_raised() {
        let change = raised();
        assert_eq!(without(&change, 50, 50), (5, 10));
        assert_eq!(without(&change, 49, 50), (5, 10));
        assert_eq!(without(&change, 49, 49), (5, 10));
        assert_eq!(without(&change, 11, 11), (5, 10));
        assert_eq!(without(&change, 0, 49), (0, 10));
    }

    #[test]
    fn a_limit_that_the_process_could_have_without_the_change_stays() {
        let change = raised();
        for (soft, hard) in [(10, 10), (0, 10), (7, 7), (51, 51), (0, 51)] {
            assert_eq!(without(&change, soft, hard), (soft, hard));
        }
        let privileged = LimitChange { may_raise: true, ..change };
        assert_eq!(without(&privileged, 49, 49), (49, 49));
        assert_eq!(without(&privileged, 50, 50), (5, 10));
    }

    #[test]
    fn a_policy_that_only_the_limit_allows_is_lent() {
        let rule = |priority| Rule { policy: RR, priority, reset_on_fork: false };
        let real_time = RealTime { highest: 10, had: vec![rule(30)] };
        let lent = [10, 11, 30, 50, 51].map(|priority| real_time.is_lent(rule(priority), 50));
        assert_eq!(lent, [false, true, false, true, false]);
        let ordinary = Rule { policy: ORDINARY, ..rule(0) };
        assert!(!real_time.is_lent(ordinary, 50));
    }

    /// A shell with this limit of descriptors. For each line that it reads it starts a program and
    /// ends the parent of that process.
    struct Forker {
        shell: Child,
        lines: Lines<BufReader<ChildStdout>>,
    }

    impl Forker {
        fn new(limit: u64) -> Self {
            let script = format!(
                "ulimit -n {limit}; echo $$; while read x; do (sleep 60 >&2 & echo $!); done"
            );
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.stderr(Stdio::null()).spawn().unwrap();
            let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
            lines.next().unwrap().unwrap();
            Self { shell, lines }
        }

        fn pid(&self) -> i32 {
            self.shell.id() as i32
        }

        fn start_orphan(&mut self) -> Orphan {
            writeln!(self.shell.stdin.as_mut().unwrap()).unwrap();
            let orphan = self.lines.next().unwrap().unwrap().parse().unwrap();
            let has_executed =
                || std::fs::read_to_string(format!("/proc/{orphan}/comm")).unwrap() == "sleep\n";
            while !has_executed()
                || parent_of(parent_of(orphan).unwrap()).is_ok_and(|id| id == self.pid())
            {
                std::thread::yield_now();
            }
            Orphan(orphan)
        }
    }

    impl Drop for Forker {
        fn drop(&mut self) {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
    }

    struct Orphan(i32);

    impl Orphan {
        fn hard(&self) -> u64 {
            Limits::of(self.0, Resource::Nofile).unwrap().hard
        }
    }

    impl Drop for Orphan {
        fn drop(&mut self) {
            let _ = kill(Pid::from_raw(self.0), Signal::SIGKILL);
        }
    }

    #[test]
    fn processes_with_ended_parents_lose_an_inherited_limit_unless_it_is_their_own() {
        let uid = nix::unistd::getuid().as_raw();
        let mut forker = Forker::new(110);
        let limits = |limit| Limits { soft: limit, hard: limit };
        let change = LimitChange {
            thread_id: Identity::of(forker.pid()).unwrap(),
            resource: Resource::Nofile,
            was: limits(100),
            ours: vec![limits(110)],
            births: Some(Births::since_now(forker.pid()).unwrap()),
            ..raised()
        };
        let [heir, own, lower] = [(); 3].map(|()| forker.start_orphan());
        sys::set_limits(lower.0, Resource::Nofile.number(), limits(105)).unwrap();
        let has_own = |process: Identity| process.tid == own.0;
        let all = || [&heir, &own, &lower].map(Orphan::hard);
        change.take_from_children(&|_, _| false);
        change.take_from_orphans(uid + 1, &|_, _| false, has_own);
        assert_eq!(all(), [110, 110, 105], "another user's");
        change.take_from_orphans(uid, &|_, _| false, has_own);
        assert_eq!(all(), [100, 110, 105]);
        assert_eq!(Limits::of(forker.pid(), Resource::Nofile).unwrap(), limits(110));
    }
}
