// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of the budget guard: the CPU time that threads used one after another while they
//! were Fast, and bans.
use std::collections::VecDeque;
use std::time::Duration;
use tek_policy::Budget;

/// The guard polls an account this many times in a window.
pub const CHECKS: u64 = 16;
/// The n-th overrun bans a thread for 2^(n-1) windows, up to 64.
const MAX_BAN_SHIFT: u32 = 6;
/// The window without a budget: polls must still notice the end of the thread.
const USUAL_WINDOW_NS: u64 = 1_000_000_000;

/// A thread exceeded its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// CPU time it used.
    pub used_ns: u64,
    /// CPU time of the budget.
    pub of_ns: u64,
    /// The window of its budget.
    pub window_ns: u64,
    /// The length of the ban.
    pub banned_ns: u64,
}

/// A budget, and the CPU time that was used of it in its window.
#[derive(Clone, Debug)]
struct Window {
    /// 0: no budget.
    cpu_ns: u64,
    window_ns: u64,
    /// The time of each poll, and the CPU time that the account had used by then. The oldest is
    /// first; there is at most one for each interval of the guard.
    samples: VecDeque<(u64, u64)>,
}

impl Window {
    fn new(budget: Budget, now_ns: u64, used_ns: u64) -> Self {
        let samples = VecDeque::from([(now_ns, used_ns)]);
        let mut window = Self { cpu_ns: 0, window_ns: USUAL_WINDOW_NS, samples };
        window.set(budget);
        window
    }

    fn set(&mut self, budget: Budget) {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        (self.cpu_ns, self.window_ns) = match budget {
            Budget::Off => (0, USUAL_WINDOW_NS),
            Budget::Limit { cpu, window } => (ns(cpu), ns(window)),
        };
    }

    /// CPU time that was used in the last window, and the budget, if that is exceeded.
    fn overrun(&mut self, now_ns: u64, used_ns: u64) -> Option<(u64, u64)> {
        let window_ago = now_ns.saturating_sub(self.window_ns);
        // Of the polls older than a window only the last matters.
        while self.samples.get(1).is_some_and(|(at, _)| *at <= window_ago) {
            self.samples.pop_front();
        }
        let (at, before) = self.samples.front().copied().unwrap_or((now_ns, used_ns));
        self.note(now_ns, used_ns);
        let elapsed = now_ns.saturating_sub(at).max(self.window_ns);
        let allowed = u128::from(self.cpu_ns) * u128::from(elapsed) / u128::from(self.window_ns);
        let allowed = u64::try_from(allowed).unwrap_or(u64::MAX);
        let used = used_ns - before.min(used_ns);
        (self.cpu_ns > 0 && used > allowed).then_some((used, allowed))
    }

    fn note(&mut self, now_ns: u64, used_ns: u64) {
        let last = self.last_ns();
        // A poll a little earlier than planned counts as well.
        if now_ns.saturating_sub(last) >= self.interval_ns() - self.interval_ns() / 4 {
            self.samples.push_back((now_ns, used_ns));
        }
        while self.samples.len() > 2 * CHECKS as usize {
            self.samples.pop_front();
        }
    }

    fn last_ns(&self) -> u64 {
        self.samples.back().map_or(0, |(at, _)| *at)
    }

    fn interval_ns(&self) -> u64 {
        self.window_ns / CHECKS
    }
}

/// It outlives a stay in the Fast Region, so that leaving for a moment does not clear it. It
/// outlives a thread, so that ending does not clear it either: see [`crate::ledger`].
#[derive(Clone, Debug)]
pub struct Account {
    granted: Window,
    /// The narrower budget that the thread asked for. The granted one stays beside it: each of the
    /// two can change at any time.
    asked: Option<(Budget, Window)>,
    /// CPU time of earlier stays, and the thread's clock when this stay began.
    booked_ns: u64,
    entered_at_ns: u64,
    /// CPU time of earlier threads.
    earlier_ns: u64,
    overruns: u32,
    banned_until_ns: u64,
}

impl Account {
    /// The account of a thread that was not Fast before.
    pub fn new(now_ns: u64) -> Self {
        Self {
            granted: Window::new(Budget::Off, now_ns, 0),
            asked: None,
            booked_ns: 0,
            entered_at_ns: 0,
            earlier_ns: 0,
            overruns: 0,
            banned_until_ns: 0,
        }
    }

    /// Sets the budgets; `cpu_ns` is the thread's CPU time since its start.
    pub fn set_budgets(&mut self, granted: Budget, asked: Budget, now_ns: u64, cpu_ns: u64) {
        self.granted.set(granted);
        if asked == granted {
            self.asked = None;
        } else if self.asked.as_ref().is_none_or(|(budget, _)| *budget != asked) {
            self.asked = Some((asked, Window::new(asked, now_ns, self.used(cpu_ns))));
        }
    }

    fn windows(&self) -> impl Iterator<Item = &Window> {
        std::iter::once(&self.granted).chain(self.asked.as_ref().map(|(_, window)| window))
    }

    fn windows_mut(&mut self) -> impl Iterator<Item = &mut Window> {
        std::iter::once(&mut self.granted).chain(self.asked.as_mut().map(|(_, window)| window))
    }

    /// Begins a stay; `cpu_ns` is the thread's CPU time since its start.
    pub fn enter(&mut self, now_ns: u64, cpu_ns: u64) {
        self.entered_at_ns = cpu_ns;
        let booked_ns = self.booked_ns;
        self.windows_mut().for_each(|window| window.note(now_ns, booked_ns));
    }

    /// Ends a stay.
    pub fn leave(&mut self, cpu_ns: u64) {
        self.booked_ns = self.used(cpu_ns);
        self.entered_at_ns = cpu_ns;
    }

    /// Polls the account. An overrun bans the thread.
    pub fn examine(&mut self, now_ns: u64, cpu_ns: u64) -> Option<Overrun> {
        let used_ns = self.used(cpu_ns);
        let overran =
            |window: &mut Window| Some((window.window_ns, window.overrun(now_ns, used_ns)?));
        // Both windows record the poll, whichever was overrun.
        let overruns: Vec<_> = self.windows_mut().filter_map(overran).collect();
        let (window_ns, (used_ns, of_ns)) = overruns.into_iter().max()?;
        let shift = self.overruns.min(MAX_BAN_SHIFT);
        self.overruns = self.overruns.saturating_add(1);
        let banned_ns = window_ns.saturating_mul(1 << shift);
        self.banned_until_ns = now_ns.saturating_add(banned_ns);
        Some(Overrun { used_ns, of_ns, window_ns, banned_ns })
    }

    /// Adds CPU time that children of its thread used with the weight of that thread.
    pub fn charge(&mut self, ns: u64) {
        self.booked_ns += ns;
    }

    /// The rest of its ban; `None`: no ban.
    pub fn banned_for(&self, now_ns: u64) -> Option<Duration> {
        let left = self.banned_until_ns.saturating_sub(now_ns);
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// The interval of polls.
    pub fn interval_ns(&self) -> u64 {
        self.windows().map(Window::interval_ns).min().unwrap_or(USUAL_WINDOW_NS)
    }

    /// CPU time that was charged to it since it was opened.
    fn used(&self, cpu_ns: u64) -> u64 {
        self.booked_ns + cpu_ns.saturating_sub(self.entered_at_ns)
    }

    /// CPU time that its present thread used while it was Fast.
    pub fn used_by_thread(&self, cpu_ns: u64) -> u64 {
        self.used(cpu_ns).saturating_sub(self.earlier_ns)
    }

    /// Hands it to another thread.
    pub fn taken_over(self) -> Self {
        Self { earlier_ns: self.booked_ns, ..self }
    }

    /// Its burden for a thread that takes it over: the end of its ban, its overruns, and the CPU
    /// time that was used of it recently.
    pub fn burden(&self) -> (u64, u32, u64) {
        let before = self.granted.samples.front().map_or(0, |(_, used)| *used);
        (self.banned_until_ns, self.overruns, self.booked_ns.saturating_sub(before))
    }

    /// Whether a new account would be equal: no ban lasts, and the last ban is so long ago that it
    /// counts no more.
    pub fn is_settled(&self, now_ns: u64) -> bool {
        let windows = if self.overruns > 0 { 2 << MAX_BAN_SHIFT } else { 1 };
        let last = self.granted.last_ns().max(self.banned_until_ns);
        let window_ns = self.windows().map(|window| window.window_ns).max().unwrap_or(0);
        last.saturating_add(window_ns.saturating_mul(windows)) < now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000 * MS;

    /// An account of 80 ms in each 160 ms, polled every 10 ms.
    fn account() -> Account {
        let mut account = Account::new(START);
        let (cpu, window) = (Duration::from_millis(80), Duration::from_millis(160));
        let budget = Budget::Limit { cpu, window };
        account.set_budgets(budget, budget, START, 0);
        account.enter(START, 0);
        account
    }

    /// Polls a thread that uses this share of its time; returns when it overran.
    fn overran_at(account: &mut Account, from: u64, percent: u64, ms: u64) -> Option<u64> {
        (0..ms / 10).find_map(|n| {
            let ms = 10 * (n + 1);
            account.examine(from + ms * MS, ms * MS * percent / 100).map(|_| ms)
        })
    }

    #[test]
    fn a_thread_that_keeps_to_its_budget_stays() {
        assert_eq!(overran_at(&mut account(), START, 49, 10_000), None);
    }

    #[test]
    fn a_thread_that_does_not_is_detected_within_a_window() {
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
    fn leaving_for_a_moment_does_not_help() {
        let mut account = account();
        let overran = (1..1000).find(|n| {
            // 8 of every 10 ms are used inside, and 1 ms passes outside without use.
            let now = START + n * 11 * MS;
            account.leave(n * 8 * MS);
            account.enter(now, n * 8 * MS);
            account.examine(now, n * 8 * MS).is_some()
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
            assert_eq!(account.examine(now, n * 10 * MS), None);
        }
    }

    #[test]
    fn a_guard_that_came_late_allows_more() {
        let mut account = account();
        assert_eq!(account.examine(START + 1600 * MS, 700 * MS), None);
        assert!(account.examine(START + 1610 * MS, 1000 * MS).is_some());
    }

    #[test]
    fn without_a_budget_no_thread_overruns() {
        let mut account = Account::new(START);
        account.set_budgets(Budget::Off, Budget::Off, START, 0);
        account.enter(START, 0);
        assert_eq!(overran_at(&mut account, START, 100, 10_000), None);
    }

    #[test]
    fn asking_for_another_budget_again_and_again_clears_nothing() {
        let limit = |cpu, window| Budget::Limit {
            cpu: Duration::from_millis(cpu),
            window: Duration::from_millis(window),
        };
        let (granted, mut account) = (limit(80, 160), account());
        let overran = (1..100).find(|n| {
            let now = START + n * 10 * MS;
            let asked = if n % 2 == 0 { granted } else { limit(4 + n % 3, 10) };
            account.set_budgets(granted, asked, now, (n - 1) * 9 * MS);
            account.examine(now, n * 9 * MS).is_some_and(|over| over.window_ns == 160 * MS)
        });
        assert!(overran.is_some_and(|n| n <= 16), "{overran:?}");
    }

    #[test]
    fn a_thread_that_asks_for_a_narrower_budget_is_held_to_it() {
        let asked =
            Budget::Limit { cpu: Duration::from_millis(5), window: Duration::from_millis(160) };
        let granted = Budget::Off;
        let mut account = Account::new(START);
        account.set_budgets(granted, asked, START, 0);
        account.enter(START, 0);
        assert_eq!(overran_at(&mut account, START, 50, 1000), Some(20));
        assert!(account.banned_for(START + 21 * MS).is_some());
    }

    #[test]
    fn a_thread_that_takes_an_account_over_has_what_is_left_of_it() {
        let mut account = account();
        account.leave(70 * MS);
        let mut account = account.taken_over();
        account.enter(START + 75 * MS, 0);
        assert_eq!(account.used_by_thread(5 * MS), 5 * MS);
        assert_eq!(account.examine(START + 85 * MS, 5 * MS), None);
        assert!(account.examine(START + 95 * MS, 15 * MS).is_some());
    }
}
