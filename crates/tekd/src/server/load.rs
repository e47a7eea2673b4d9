// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the connection that is served next, and accounts CPU time of users and kinds of work.
//!
//! tekd outranks nearly every thread, so its time is bounded as a whole, for all messages of all
//! clients. One message is served at a time. Users with a grant precede other users. Users that
//! wait at the same time get equal times (start-time fair queueing), so a rare message waits for at
//! most one message of another user. Root's time is counted but not bounded.
use super::Server;
use crate::share::Share;
use crate::sys;
use std::collections::{HashMap, HashSet, VecDeque};

const MS: u64 = 1_000_000;

/// Shares of a CPU: of one user, of all users with grants if several ask, and of all users without
/// a grant. The second has a short burst, because each user waits for the end of a pause. The third
/// is so small that few messages with a grant wait for one without.
const OF_A_USER: Share = Share::new(10, 50 * MS);
const OF_GRANTED: Share = Share::new(4, MS / 2);
const OF_STRANGERS: Share = Share::new(64, 20 * MS);
/// New connections: those beyond the bound wait in the kernel.
const OF_DOOR: Share = Share::new(50, 2 * MS);
/// Work that is on no user's account: placing processes that execute programs.
const OF_CHORES: Share = Share::new(128, 5 * MS);
/// Events of executed programs.
const OF_NEWS: Share = Share::new(100, 5 * MS);
/// Events of births.
const OF_BIRTHS: Share = Share::new(20, 5 * MS);
/// The longest wait of tekd that counts: it may have been stopped.
const MOST_WAITED_NS: u64 = 100 * MS;
/// The extra cost of a file with a reply: it takes memory until the client has read it.
const FILE_NS: u64 = 4 * MS;
/// Idle users are removed when there are more.
const MANY_USERS: usize = 64;

struct User {
    share: Share,
    /// The virtual time at which its next message begins.
    begins_at: u64,
    /// Connections with something to be read, and their numbers in the order of arrival.
    ready: VecDeque<(u64, u64)>,
}

/// All accounts, and the connections with something to be read.
pub struct Load {
    users: HashMap<u32, User>,
    /// Users that the configuration names, and users with a process that has a grant.
    with_grant: HashSet<u32>,
    granted: Share,
    strangers: Share,
    pub door: Share,
    pub chores: Share,
    pub news: Share,
    pub births: Share,
    /// Start of the last message that was served, for users with grants and for users without.
    virtual_ns: [u64; 2],
    arrivals: u64,
}

impl Load {
    /// New accounts; the configuration names these users in grants.
    pub fn new(named: impl IntoIterator<Item = u32>) -> Self {
        Self {
            users: HashMap::new(),
            with_grant: named.into_iter().collect(),
            granted: OF_GRANTED,
            strangers: OF_STRANGERS,
            door: OF_DOOR,
            chores: OF_CHORES,
            news: OF_NEWS,
            births: OF_BIRTHS,
            virtual_ns: [0; 2],
            arrivals: 0,
        }
    }

    /// Applies the users that another configuration names in grants.
    pub fn name_again(&mut self, named: impl IntoIterator<Item = u32>) {
        let named = named.into_iter().collect();
        let before = std::mem::replace(&mut self.with_grant, named);
        let uids: Vec<u32> = self.users.keys().copied().collect();
        for uid in uids.into_iter().filter(|uid| *uid != 0) {
            if before.contains(&uid) != self.with_grant.contains(&uid) {
                self.begin_in_class(uid);
            }
        }
    }

    /// A process of a user has a grant.
    pub fn note_grant(&mut self, uid: u32) {
        if self.with_grant.insert(uid) {
            self.begin_in_class(uid);
        }
    }

    /// Starts a user at the virtual time of its class: users with grants have one, the rest
    /// another.
    fn begin_in_class(&mut self, uid: u32) {
        self.user(uid).begins_at = self.virtual_ns[self.class_of(uid)];
    }

    /// Charges CPU time to a user.
    pub fn charge(&mut self, uid: u32, ns: u64, now_ns: u64) {
        if self.users.len() > MANY_USERS {
            let last = self.virtual_ns.into_iter().max().unwrap_or(0);
            self.users.retain(|_, user| {
                let is_even = user.share.is_even(now_ns) && user.begins_at <= last;
                !(user.ready.is_empty() && is_even)
            });
        }
        let user = self.user(uid);
        user.share.charge(ns, now_ns);
        user.begins_at += ns;
        match self.comes_first(uid) {
            true if uid == 0 => {}
            true => self.granted.charge(ns, now_ns),
            false => self.strangers.charge(ns, now_ns),
        }
    }

    /// Charges a use that delays no other user.
    fn charge_alone(&mut self, uid: u32, ns: u64, now_ns: u64) {
        self.user(uid).share.charge(ns, now_ns);
    }

    /// Whether a user is beyond its own bound.
    pub fn is_exhausted(&self, uid: u32, now_ns: u64) -> bool {
        let user = self.users.get(&uid).filter(|_| uid != 0);
        user.is_some_and(|user| user.share.exhausted_until(now_ns).is_some())
    }

    /// A connection has something to be read.
    pub fn arrived(&mut self, uid: u32, id: u64) {
        self.arrivals += 1;
        let (arrival, now) = (self.arrivals, self.virtual_ns[self.class_of(uid)]);
        let user = self.user(uid);
        if user.ready.is_empty() {
            user.begins_at = user.begins_at.max(now);
        }
        user.ready.push_back((arrival, id));
    }

    /// Takes the connection that is served next; `None`: none may be served now.
    pub fn next(&mut self, now_ns: u64) -> Option<u64> {
        let several = self.do_several_ask(now_ns);
        let rank = |(uid, user): (&u32, &User)| {
            let (arrival, _) = user.ready.front()?;
            let may = self.may_at(*uid, user, several, now_ns) <= now_ns;
            may.then(|| (self.class_of(*uid), user.begins_at, *arrival, *uid))
        };
        let (class, begins_at, _, uid) = self.users.iter().filter_map(rank).min()?;
        self.virtual_ns[class] = begins_at;
        self.user(uid).ready.pop_front().map(|(_, id)| id)
    }

    /// When a connection that waits may be served; `None`: none waits.
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let several = self.do_several_ask(now_ns);
        let waiting = self.users.iter().filter(|(_, user)| !user.ready.is_empty());
        waiting.map(|(uid, user)| self.may_at(*uid, user, several, now_ns)).min()
    }

    /// Whether several users with grants asked recently. A single user has its own bound only.
    fn do_several_ask(&self, now_ns: u64) -> bool {
        let asked = |(uid, user): &(&u32, &User)| {
            **uid != 0 && self.comes_first(**uid) && !user.share.is_even(now_ns)
        };
        self.users.iter().filter(asked).nth(1).is_some()
    }

    fn may_at(&self, uid: u32, user: &User, several: bool, now_ns: u64) -> u64 {
        if uid == 0 {
            return now_ns;
        }
        let all = match self.comes_first(uid) {
            true => Some(&self.granted).filter(|_| several),
            false => Some(&self.strangers),
        };
        let until = [Some(&user.share), all].map(|share| share?.exhausted_until(now_ns));
        until.into_iter().flatten().max().unwrap_or(now_ns)
    }

    /// Whether a user has a grant.
    pub fn comes_first(&self, uid: u32) -> bool {
        uid == 0 || self.with_grant.contains(&uid)
    }

    /// Users with grants are served first.
    fn class_of(&self, uid: u32) -> usize {
        usize::from(!self.comes_first(uid))
    }

    fn user(&mut self, uid: u32) -> &mut User {
        let new = || User { share: OF_A_USER, begins_at: 0, ready: VecDeque::new() };
        self.users.entry(uid).or_insert_with(new)
    }
}

/// Measures a piece of work.
pub(super) struct Stopwatch {
    began_ns: u64,
    cpu_ns: u64,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { began_ns: sys::monotonic_ns(), cpu_ns: sys::cpu_ns() }
    }

    /// The CPU time that it took.
    fn cpu_ns(&self) -> u64 {
        sys::cpu_ns().saturating_sub(self.cpu_ns)
    }

    /// The time in which tekd could serve no other message. Waits count twice, because they make
    /// such times long.
    pub(super) fn ns(&self, now_ns: u64) -> u64 {
        let cpu_ns = self.cpu_ns();
        let waited_ns = now_ns.saturating_sub(self.began_ns).saturating_sub(cpu_ns);
        cpu_ns + 2 * waited_ns.min(MOST_WAITED_NS)
    }
}

impl Server {
    /// The user that is charged for a user id.
    pub fn user_of(&self, uid: u32) -> u32 {
        self.subordinates.owner_of(uid)
    }

    /// A process of this user has a grant.
    pub fn note_grant(&mut self, uid: u32) {
        let user = self.user_of(uid);
        self.load.note_grant(user);
    }

    /// Does work for a user, and charges it to that user.
    pub(super) fn work_for<T>(&mut self, user: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        let watch = Stopwatch::start();
        let done = work(self);
        let now_ns = sys::monotonic_ns();
        let used_ns = match self.load.comes_first(user) {
            true => watch.cpu_ns(),
            // Other clients wait for that, too.
            false => watch.ns(now_ns),
        };
        self.load.charge(user, used_ns, now_ns);
        done
    }

    /// Charges a file to the user that got it.
    pub(super) fn note_file_of(&mut self, user: u32) {
        self.load.charge_alone(user, FILE_NS, sys::monotonic_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: [u32; 2] = [1, 2];

    /// Serves for one second, each message for 100 us. Each user of `wants` has a message again as
    /// soon as its last one is served. Returns how often each was served.
    fn served(load: &mut Load, wants: &[u32]) -> HashMap<u32, u64> {
        let mut times = HashMap::new();
        wants.iter().for_each(|uid| load.arrived(*uid, u64::from(*uid)));
        let (mut now_ns, end_ns) = (1000 * MS, 2000 * MS);
        while now_ns < end_ns {
            let Some(id) = load.next(now_ns) else {
                now_ns = load.next_ns(now_ns).unwrap_or(end_ns);
                continue;
            };
            let uid = u32::try_from(id).unwrap();
            *times.entry(uid).or_default() += 1;
            load.charge(uid, MS / 10, now_ns);
            load.arrived(uid, id);
            now_ns += MS / 10;
        }
        times
    }

    #[test]
    fn all_users_together_have_a_bound_and_those_without_a_grant_a_smaller_one() {
        let mut load = Load::new(0..40);
        let granted: u64 = served(&mut load, &(1..40).collect::<Vec<_>>()).values().sum();
        // A quarter of a second: each message is a tenth of a ms.
        assert!((2000..2600).contains(&granted), "{granted}");
        let mut load = Load::new(GRANTED);
        let strangers: u64 = served(&mut load, &(100..400).collect::<Vec<_>>()).values().sum();
        assert!((300..420).contains(&strangers), "{strangers}");
    }

    #[test]
    fn users_have_equal_parts_of_what_is_bounded() {
        let mut load = Load::new(GRANTED);
        let mut wants = vec![100];
        wants.extend([101; 64]); // by 64 connections
        let times = served(&mut load, &wants);
        assert!(times[&100].abs_diff(times[&101]) <= 2, "{times:?}");
    }

    #[test]
    fn a_user_with_a_grant_comes_before_all_that_have_none_and_then_users_by_what_they_used() {
        let mut load = Load::new(GRANTED);
        for (uid, id) in [(100, 1), (1, 2), (2, 3), (0, 4), (1, 5)] {
            load.arrived(uid, id);
        }
        let mut order = Vec::new();
        while let Some(id) = load.next(MS) {
            load.charge(if id == 2 { 1 } else { 2 }, 1000, MS);
            order.push(id);
        }
        assert_eq!(order, [2, 3, 4, 5, 1]);
        assert_eq!(load.next_ns(MS), None);
    }

    #[test]
    fn one_that_begins_to_ask_is_not_behind_those_that_have_asked_for_long() {
        let mut load = Load::new(GRANTED);
        served(&mut load, &[100, 101]);
        load.arrived(102, 102);
        let now_ns = 5000 * MS;
        let order: Vec<_> = std::iter::from_fn(|| load.next(now_ns)).collect();
        assert_eq!(order.len(), 3);
        // Nor did it save up time.
        assert!(
            load.user(102).begins_at >= load.user(100).begins_at.min(load.user(101).begins_at) - MS
        );
    }

    #[test]
    fn a_user_is_known_to_have_a_grant_until_another_configuration_names_other_users() {
        let mut load = Load::new(GRANTED);
        assert!(!load.comes_first(7));
        load.note_grant(7);
        assert!(load.comes_first(7));
        load.name_again([8]);
        assert!(load.comes_first(8) && !load.comes_first(7) && !load.comes_first(1));
    }

    /// The users that are served next, four of them; each message takes 1 us.
    fn next_four(load: &mut Load) -> [u64; 4] {
        [(); 4].map(|()| {
            let id = load.next(MS).unwrap();
            load.charge(u32::try_from(id).unwrap(), 1000, MS);
            id
        })
    }

    #[test]
    fn a_user_whose_messages_wait_when_it_gets_or_loses_a_grant_is_served_like_other_users() {
        let ask = |load: &mut Load, uids: &[u32]| {
            (0..4).for_each(|_| uids.iter().for_each(|uid| load.arrived(*uid, u64::from(*uid))));
        };
        let are_equal = |marks: [u64; 4], uid| marks.iter().filter(|id| **id == uid).count() == 2;
        // The user 1 is far ahead in the time of those that have grants.
        let far_ahead = || {
            let mut load = Load::new([1]);
            (0..25).for_each(|_| {
                ask(&mut load, &[1]);
                next_four(&mut load);
            });
            load
        };
        let mut load = far_ahead();
        ask(&mut load, &[1, 7]);
        load.note_grant(7);
        assert!(are_equal(next_four(&mut load), 7));
        let mut load = far_ahead();
        ask(&mut load, &[1, 7]);
        load.name_again([7]);
        load.name_again([7, 1]);
        assert!(are_equal(next_four(&mut load), 7));
        let mut load = far_ahead();
        ask(&mut load, &[1, 8]);
        load.name_again([]);
        assert!(are_equal(next_four(&mut load), 8));
    }

    #[test]
    fn a_user_that_has_used_too_much_waits_and_root_never_does() {
        let mut load = Load::new(GRANTED);
        for uid in [0, 1] {
            (0..1000).for_each(|_| load.charge(uid, MS, MS));
            load.arrived(uid, u64::from(uid));
        }
        assert!(load.is_exhausted(1, MS) && !load.is_exhausted(0, MS));
        assert_eq!(load.next_ns(MS), Some(MS));
        assert_eq!(load.next(MS), Some(0));
        assert_eq!(load.next(MS), None);
        let then = load.next_ns(MS).unwrap();
        assert!(then > 9000 * MS);
        assert_eq!(load.next(then), Some(1));
    }
}
