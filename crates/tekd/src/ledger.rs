// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts of threads that were Fast and are not, and the threads that take them over.
//!
//! A thread gets its account again for as long as that matters ([`Account::is_settled`]). A thread
//! without an account takes over an unused one of its process. Else it takes over one of its user
//! whose process has ended or has closed its connections. So threads that are Fast one after
//! another share one budget, and threads that are Fast at once have one each. Pure, but for checks
//! whether processes have ended.
use crate::guard::Account;
use std::collections::HashMap;
use tek_effect::{Error, Identity};
use tek_policy::Counts;

/// Settled accounts are removed when there are more.
const MANY: usize = 1024;

/// The process, user and grant that an account belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub process: Identity,
    /// The user that asked, and where its grant is written.
    pub uid: u32,
    pub grant: String,
    /// When the process that asked connected.
    pub connected_ns: u64,
    /// The thread's own process asked, and not another process.
    pub by_itself: bool,
}

struct Entry {
    owner: Owner,
    account: Account,
    /// Its process has closed its connections, or has ended.
    is_orphan: bool,
}

/// All accounts of threads that are not Fast.
#[derive(Default)]
pub struct Ledger {
    entries: HashMap<Identity, Entry>,
}

impl Ledger {
    /// The account of a thread, if it has one.
    pub fn of(&self, thread: Identity) -> Option<&Account> {
        self.entries.get(&thread).map(|entries| &entries.account)
    }

    /// The number of barred accounts of a process and of a user.
    pub fn barred(&self, process: Identity, uid: u32, now_ns: u64) -> Counts {
        self.count(process, uid, |entries| entries.account.banned_for(now_ns).is_some())
    }

    fn count(&self, process: Identity, uid: u32, which: impl Fn(&Entry) -> bool) -> Counts {
        let mut counts = Counts::default();
        for entries in self.entries.values().filter(|entries| which(entries)) {
            counts.process += u32::from(entries.owner.process == process);
            counts.user += u32::from(entries.owner.uid == uid);
        }
        counts
    }

    /// Stores the account of a thread that is no longer Fast.
    pub fn keep(&mut self, thread: Identity, owner: Owner, account: Account, now_ns: u64) {
        if self.entries.len() > MANY {
            self.entries.retain(|_, entries| !entries.account.is_settled(now_ns));
        }
        self.entries.insert(thread, Entry { owner, account, is_orphan: false });
    }

    /// A process has closed its connections, or has ended.
    pub fn orphan(&mut self, process: Identity) {
        let of_process = |entries: &&mut Entry| entries.owner.process == process;
        self.entries.values_mut().filter(of_process).for_each(|entries| entries.is_orphan = true);
    }

    /// The thread whose account this thread takes over; `None`: it gets a new one. `there` counts
    /// the accounts of Fast threads, and `most` limits those of the process and of the user.
    pub fn choose(
        &mut self,
        thread: Identity,
        owner: &Owner,
        there: Counts,
        most: Counts,
        now_ns: u64,
    ) -> Option<Identity> {
        if self.entries.contains_key(&thread) {
            return Some(thread);
        }
        self.entries.retain(|_, entries| !entries.account.is_settled(now_ns));
        let free = || self.entries.iter().filter(|(_, entries)| entries.is_free_for(owner));
        // A ban is for the whole process, and for the next process: else it would go on with other
        // threads.
        let banned = free().filter(|(_, entries)| entries.account.banned_for(now_ns).is_some());
        let last_banned = banned.max_by_key(|(_, entries)| entries.account.banned_for(now_ns));
        let least_used = || free().min_by_key(|(_, entries)| entries.account.burden());
        let found = last_banned.or_else(least_used).map(|(thread, _)| *thread);
        found.or_else(|| self.shared_with_user(owner, there, most, now_ns))
    }

    /// Removes an account, for a thread that becomes Fast.
    pub fn remove(&mut self, thread: Identity) -> Option<Account> {
        self.entries.remove(&thread).map(|entries| entries.account)
    }

    /// The least used account of an earlier process of the user, if the user has its maximum of
    /// accounts.
    fn shared_with_user(
        &self,
        owner: &Owner,
        there: Counts,
        most: Counts,
        now_ns: u64,
    ) -> Option<Identity> {
        let entries = self.count(owner.process, owner.uid, |_| true);
        if there.user + entries.user < most.user {
            return None;
        }
        let of_user = self.entries.iter().filter(|(_, entries)| {
            entries.owner.is_predecessor_of(owner) && entries.account.banned_for(now_ns).is_none()
        });
        of_user.min_by_key(|(_, entries)| entries.account.burden()).map(|(thread, _)| *thread)
    }
}

impl Entry {
    /// Whether a thread without an account takes this one over.
    fn is_free_for(&self, owner: &Owner) -> bool {
        let is_gone = || matches!(self.owner.process.check_process(), Err(Error::Gone { .. }));
        let has_ended = || self.is_orphan || is_gone();
        self.owner.process == owner.process || (self.owner.is_predecessor_of(owner) && has_ended())
    }
}

impl Owner {
    /// Whether a later process of this user, with the same grant, takes the account over. A process
    /// that was connected before has accounts of its own.
    fn is_predecessor_of(&self, later: &Self) -> bool {
        let is_by_itself = self.by_itself && later.by_itself;
        let is_earlier = self.connected_ns <= later.connected_ns;
        is_by_itself && is_earlier && self.uid == later.uid && self.grant == later.grant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tek_policy::Budget;

    const MS: u64 = 1_000_000;
    const NOW: u64 = 1_000_000 * MS;
    const MOST: Counts = Counts { process: 5, user: 5 };

    /// A process, or a thread of one, that does not exist any more.
    fn ended(tid: i32) -> Identity {
        Identity { tid, start_ticks: 1 }
    }

    /// A process that exists.
    fn there() -> Identity {
        Identity::of_process(std::process::id() as i32).unwrap()
    }

    fn owner(process: Identity) -> Owner {
        Owner { process, uid: 7, grant: "g".to_owned(), connected_ns: NOW, by_itself: true }
    }

    fn used(ms: u64) -> Account {
        let (cpu, window) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut account = Account::new(NOW);
        let budget = Budget::Limit { cpu, window };
        account.set_budgets(budget, budget, NOW, 0);
        account.enter(NOW, 0);
        account.examine(NOW + 500 * MS, ms * MS);
        account.leave(ms * MS);
        account
    }

    struct Bench(Ledger);

    impl Bench {
        fn with(accounts: &[(Identity, Owner, u64)]) -> Self {
            let mut ledger = Ledger::default();
            for (thread, owner, ms) in accounts {
                ledger.keep(*thread, owner.clone(), used(*ms), NOW);
            }
            Self(ledger)
        }

        fn take(&mut self, thread: Identity, owner: &Owner, there: u32) -> Option<Identity> {
            let there = Counts { process: there, user: there };
            let previous = self.0.choose(thread, owner, there, MOST, NOW + 600 * MS)?;
            self.0.remove(previous).map(|_| previous)
        }
    }

    #[test]
    fn a_thread_has_its_own_account_again() {
        let own = owner(there());
        let mut bench = Bench::with(&[(there(), own.clone(), 10), (ended(2), own.clone(), 90)]);
        assert_eq!(bench.take(there(), &own, 0), Some(there()));
    }

    #[test]
    fn a_new_thread_takes_over_the_least_used_account_unless_one_is_banned() {
        let own = owner(there());
        let accounts = [(ended(2), 20), (ended(3), 90), (ended(4), 30)];
        let mut bench = Bench::with(&accounts.map(|(thread, ms)| (thread, own.clone(), ms)));
        assert_eq!(bench.take(ended(9), &own, 0), Some(ended(2)));
        bench.0.keep(ended(5), own.clone(), used(101), NOW);
        assert_eq!(bench.take(ended(9), &own, 0), Some(ended(5)));
    }

    #[test]
    fn a_ban_does_not_hinder_another_process_that_runs() {
        let mut bench = Bench::with(&[(ended(2), owner(there()), 101)]);
        assert_eq!(bench.take(ended(9), &owner(ended(1)), 0), None);
    }

    #[test]
    fn a_new_process_takes_over_what_is_left_of_the_users_with_its_grant() {
        let own = owner(there());
        let rest = [
            Owner { uid: 8, ..owner(ended(1)) },
            Owner { grant: "another".to_owned(), ..owner(ended(1)) },
            Owner { by_itself: false, ..owner(ended(1)) },
            Owner { connected_ns: NOW + 1, ..owner(ended(1)) },
        ];
        for other in rest {
            let mut bench = Bench::with(&[(ended(2), other, 90)]);
            assert_eq!(bench.take(ended(9), &own, 0), None);
        }
        let mut bench = Bench::with(&[(ended(2), owner(ended(1)), 90)]);
        assert_eq!(bench.take(ended(9), &own, 0), Some(ended(2)));
    }

    #[test]
    fn a_process_that_is_connected_keeps_its_accounts_until_it_closes_its_connections() {
        let own = owner(ended(1));
        let mut bench = Bench::with(&[(ended(2), owner(there()), 90)]);
        assert_eq!(bench.take(ended(9), &own, 0), None);
        bench.0.orphan(there());
        assert_eq!(bench.take(ended(9), &own, 0), Some(ended(2)));
    }

    #[test]
    fn a_user_has_no_more_accounts_than_threads_may_be_fast_at_once() {
        let own = owner(ended(1));
        let mut bench = Bench::with(&[(ended(2), owner(there()), 50)]);
        assert_eq!(bench.take(ended(9), &own, 3), None);
        assert_eq!(bench.take(ended(9), &own, 4), Some(ended(2)));
    }

    #[test]
    fn a_settled_account_is_not_taken_over() {
        let own = owner(there());
        let mut bench = Bench::with(&[(ended(2), own.clone(), 90)]);
        let later = NOW + 2_000 * MS;
        assert!(bench.0.choose(ended(9), &own, Counts::default(), MOST, later).is_none());
    }
}
