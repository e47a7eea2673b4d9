// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guard's account of one thread: the CPU time that it used while it was Fast, and its bans.
use std::collections::VecDeque;
use std::time::Duration;
use tek_policy::Budget;

/// So often in a window the guard looks.
pub const LOOKS: u64 = 16;
/// After its n-th overrun a thread is out for 2^(n-1) windows, up to 64.
const MAX_BAN_SHIFT: u32 = 6;
/// The window where there is no budget: somebody must notice that the thread ended.
const USUAL_WINDOW_NS: u64 = 1_000_000_000;

/// A thread used more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// CPU time it used.
    pub used_ns: u64,
    /// CPU time it might have used.
    pub of_ns: u64,
    /// The window of its budget.
    pub window_ns: u64,
    /// So long it may not be Fast.
    pub banned_ns: u64,
}

/// Goes on over several stays in the Fast Region, so that leaving it for a moment helps nobody.
#[derive(Clone, Debug)]
pub struct Account {
    /// 0: no budget.
    cpu_ns: u64,
    window_ns: u64,
    /// Used in earlier stays, and the thread's clock when this one began.
    booked_ns: u64,
    entered_at_ns: u64,
    /// When it was looked at, and what it had used in the Fast Region since ever; the oldest first,
    /// not more often than the guard looks.
    looks: VecDeque<(u64, u64)>,
    overruns: u32,
    banned_until_ns: u64,
}

impl Account {
    /// Of a thread that was not Fast before.
    pub fn new(now_ns: u64) -> Self {
        Self {
            cpu_ns: 0,
            window_ns: USUAL_WINDOW_NS,
            booked_ns: 0,
            entered_at_ns: 0,
            looks: VecDeque::from([(now_ns, 0)]),
            overruns: 0,
            banned_until_ns: 0,
        }
    }

    /// The budget from now on.
    pub fn set_budget(&mut self, budget: Budget) {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        (self.cpu_ns, self.window_ns) = match budget {
            Budget::Off => (0, USUAL_WINDOW_NS),
            Budget::Limit { cpu, window } => (ns(cpu), ns(window)),
        };
    }

    /// A stay begins; `cpu_ns` is what the thread has used in its life.
    pub fn enter(&mut self, now_ns: u64, cpu_ns: u64) {
        self.entered_at_ns = cpu_ns;
        self.note(now_ns, self.booked_ns);
    }

    /// It ends.
    pub fn leave(&mut self, cpu_ns: u64) {
        self.booked_ns = self.used(cpu_ns);
        self.entered_at_ns = cpu_ns;
    }

    /// Looks at it. An overrun bans the thread.
    pub fn look(&mut self, now_ns: u64, cpu_ns: u64) -> Option<Overrun> {
        let used = self.used(cpu_ns);
        let window_ago = now_ns.saturating_sub(self.window_ns);
        // What is older than a window is of use only as the last before it.
        while self.looks.get(1).is_some_and(|(at, _)| *at <= window_ago) {
            self.looks.pop_front();
        }
        let (at, before) = self.looks.front().copied().unwrap_or((now_ns, used));
        self.note(now_ns, used);
        let elapsed = now_ns.saturating_sub(at).max(self.window_ns);
        let allowed = u128::from(self.cpu_ns) * u128::from(elapsed) / u128::from(self.window_ns);
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        let used = used - before.min(used);
        if self.cpu_ns == 0 || used <= allowed {
            return None;
        }
        let shift = self.overruns.min(MAX_BAN_SHIFT);
        self.overruns = self.overruns.saturating_add(1);
        let banned_ns = self.window_ns.saturating_mul(1 << shift);
        self.banned_until_ns = now_ns.saturating_add(banned_ns);
        Some(Overrun { used_ns: used, of_ns: allowed, window_ns: self.window_ns, banned_ns })
    }

    /// How long it may not be Fast.
    pub fn banned_for(&self, now_ns: u64) -> Option<Duration> {
        let left = self.banned_until_ns.saturating_sub(now_ns);
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// The time between two looks.
    pub fn interval_ns(&self) -> u64 {
        self.window_ns / LOOKS
    }

    /// CPU time that it used while it was Fast, since ever.
    pub fn used(&self, cpu_ns: u64) -> u64 {
        self.booked_ns + cpu_ns.saturating_sub(self.entered_at_ns)
    }

    /// Whether nothing would be lost if it began anew: no ban lasts, and one that was is so long ago
    /// that the thread has shown its good will.
    pub fn is_settled(&self, now_ns: u64) -> bool {
        let windows = if self.overruns > 0 { 2 << MAX_BAN_SHIFT } else { 1 };
        let last = self.looks.back().map_or(0, |(at, _)| *at).max(self.banned_until_ns);
        last.saturating_add(self.window_ns.saturating_mul(windows)) < now_ns
    }

    fn note(&mut self, now_ns: u64, used: u64) {
        let last = self.looks.back().map_or(0, |(at, _)| *at);
        // A little earlier than planned is a look, too.
        if now_ns.saturating_sub(last) >= self.interval_ns() - self.interval_ns() / 4 {
            self.looks.push_back((now_ns, used));
        }
        while self.looks.len() > 2 * LOOKS as usize {
            self.looks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000 * MS;

    /// An account of 80 ms in each 160 ms, looked at every 10 ms.
    fn account() -> Account {
        let mut account = Account::new(START);
        let (cpu, window) = (Duration::from_millis(80), Duration::from_millis(160));
        account.set_budget(Budget::Limit { cpu, window });
        account.enter(START, 0);
        account
    }

    /// Looks at a thread that uses this share of its time; when it overran.
    fn overran_at(account: &mut Account, from: u64, percent: u64, ms: u64) -> Option<u64> {
        (0..ms / 10).find_map(|n| {
            let ms = 10 * (n + 1);
            account.look(from + ms * MS, ms * MS * percent / 100).map(|_| ms)
        })
    }

    #[test]
    fn who_keeps_to_his_budget_stays() {
        assert_eq!(overran_at(&mut account(), START, 49, 10_000), None);
    }

    #[test]
    fn who_does_not_is_found_out_within_a_window() {
        assert_eq!(overran_at(&mut account(), START, 100, 1000), Some(90));
        assert!(overran_at(&mut account(), START, 60, 1000).is_some_and(|ms| ms <= 160));
    }

    #[test]
    fn bans_double_up_to_64_windows() {
        let mut account = account();
        let mut now = START;
        for windows in [1, 2, 4, 8, 16, 32, 64, 64] {
            account.enter(now, 0);
            now += overran_at(&mut account, now, 100, 1000).unwrap() * MS;
            account.leave(0);
            assert_eq!(account.banned_for(now), Some(Duration::from_millis(160 * windows)));
            now += 160 * windows * MS;
            assert_eq!(account.banned_for(now), None);
        }
        assert!(!account.is_settled(now + 100 * 160 * MS));
        assert!(account.is_settled(now + 200 * 160 * MS));
    }

    #[test]
    fn leaving_for_a_moment_helps_nobody() {
        let mut account = account();
        let overran = (1..1000).find(|n| {
            // 8 of every 10 ms are spent inside, 1 without use outside.
            let now = START + n * 11 * MS;
            account.leave(n * 8 * MS);
            account.enter(now, n * 8 * MS);
            account.look(now, n * 8 * MS).is_some()
        });
        assert!(overran.is_some_and(|n| n < 20));
    }

    #[test]
    fn what_is_used_outside_does_not_count() {
        let mut account = account();
        for n in 1..1000 {
            let now = START + n * 10 * MS;
            account.leave((n - 1) * 10 * MS);
            account.enter(now, n * 10 * MS);
            assert_eq!(account.look(now, n * 10 * MS), None);
        }
    }

    #[test]
    fn a_guard_that_came_late_allows_more() {
        let mut account = account();
        assert_eq!(account.look(START + 1600 * MS, 700 * MS), None);
        assert!(account.look(START + 1610 * MS, 1000 * MS).is_some());
    }

    #[test]
    fn without_a_budget_nobody_overruns() {
        let mut account = Account::new(START);
        account.set_budget(Budget::Off);
        account.enter(START, 0);
        assert_eq!(overran_at(&mut account, START, 100, 10_000), None);
    }
}
