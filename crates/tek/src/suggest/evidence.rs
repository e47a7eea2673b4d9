// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers by which threads are judged.
use super::clock::Waker;
use super::window::Window;
use serde::Serialize;

/// Threads count as woken evenly if so many of their seconds are within this share of the usual
/// number of wake-ups ...
const EVEN_SHARE: f64 = 2.0 / 3.0;
const EVEN: f64 = 0.05;
/// ... within so many wake-ups, or, for a clock that is read at odd moments, this share. Chance
/// events become more even the more there are; a clock does not.
const EVEN_BY: f64 = 1.5;
const EVEN_AT_LEAST: f64 = 0.01;
/// ... and that number is large enough to be significant, as is the number of seconds.
const EVEN_WAKEUPS: f64 = 8.0;
const EVEN_WINDOWS: usize = 3;

/// They have another waker too if, in so many seconds and in so large a share of them, wake-ups
/// were clearly above the usual number. The start of each thread alone makes one such second.
const MORE: f64 = 0.25;
const MORE_WAKEUPS: f64 = 2.0;
const MORE_WINDOWS: usize = 2;
const MORE_SHARE: f64 = 0.1;

/// Storage wakes them, too, if they used it in so large a share of their seconds.
const STORAGE_SHARE: f64 = 0.5;

/// The largest share of the time that is attributed to other threads' waits for a CPU.
const REST_AT_MOST: f64 = 0.75;

/// The evidence of threads of one kind, from the seconds in which they ran. "Usual" is the median
/// of these seconds, of all the threads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// How long they were active, together: the length of the seconds in which they ran.
    pub active_s: f64,
    /// How long they were watched, together.
    pub watched_s: f64,
    /// Wake-ups in all.
    pub wakeups: u64,
    /// Usual wake-ups per second, without the time spent waiting for a CPU. So a thread that is
    /// woken seldom because it cannot keep up on a busy machine does not count as idle.
    pub wakeups_per_s: f64,
    /// Wake-ups per second that were due: those of the clock that wakes them. Otherwise those that
    /// would be there if the program's other threads, which may wake them, never waited for a CPU.
    pub due_per_s: f64,
    /// Wake-ups in all that were due.
    pub due: f64,
    /// Usual CPU time from one wake-up to the next.
    pub cpu_per_wakeup_ns: u64,
    /// Usual share of a CPU, without the time spent waiting for one. It is 1 for a thread that
    /// would never stop, however little it gets.
    pub cpu_share: f64,
    /// Share of the time in which they waited for a CPU.
    pub delay_share: f64,
    /// Mean time that they waited for a CPU after a wake-up.
    pub delay_per_wakeup_ns: u64,
    /// Of the samples at which they did not run, the share at which they waited for storage.
    pub storage_share: f64,
    /// Whether they used storage in most of their seconds. Waits for a fast one are seldom seen.
    pub uses_storage: bool,
    /// Whether they are woken evenly, as by a clock, and by nothing else.
    pub periodic: bool,
    /// Whether the waits that they asked the kernel for show it.
    #[serde(skip)]
    pub waker_is_clock: bool,
}

/// Computes the numbers. The order of the windows does not matter.
pub fn measure(windows: &[Window], asleep_ns: u64, waker: Waker) -> Evidence {
    let wakeups_per_s = usual(windows, |w| w.wakeups as f64 / seconds(free_ns(w)));
    let sum = |field: fn(&Window) -> u64| windows.iter().map(field).sum::<u64>();
    let (time_ns, wakeups) = (sum(|w| w.time_ns), sum(|w| w.wakeups));
    let storage = sum(|w| w.storage);
    Evidence {
        active_s: seconds(time_ns),
        watched_s: seconds(time_ns + asleep_ns),
        wakeups,
        wakeups_per_s,
        due_per_s: match waker {
            Waker::Clock(period_ns) => 1.0 / seconds(period_ns),
            _ => wakeups_per_s,
        },
        due: match waker {
            // For a long period only the seconds with a wake-up are here.
            Waker::Clock(period_ns) => (sum(free_ns) as f64 / period_ns as f64).max(wakeups as f64),
            _ => wakeups as f64,
        },
        delay_share: (sum(|w| w.delay_ns) as f64 / time_ns.max(1) as f64).min(1.0),
        cpu_per_wakeup_ns: usual(windows, |w| w.burst_ns as f64) as u64,
        cpu_share: usual(windows, |w| w.cpu_ns as f64 / free_ns(w) as f64),
        delay_per_wakeup_ns: sum(|w| w.delay_ns) / wakeups.max(1),
        storage_share: storage as f64 / (storage + sum(|w| w.sleeping)).max(1) as f64,
        uses_storage: uses_storage(windows),
        periodic: matches!(waker, Waker::Clock(_)) || is_periodic(windows),
        waker_is_clock: matches!(waker, Waker::Clock(_)),
    }
}

impl Evidence {
    /// The same if other threads, which may wake these, waited for a CPU in this share of the time.
    /// A clock does not wait.
    pub fn held_up(self, remaining: f64) -> Self {
        if self.waker_is_clock {
            return self;
        }
        let more = 1.0 / (1.0 - remaining.min(REST_AT_MOST));
        Self { due_per_s: self.due_per_s * more, due: self.due * more, ..self }
    }
}

/// The part of a window in which the thread ran or slept of its own will. The kernel counts a wait
/// for a CPU at its end, so that the wait can seem longer than the window.
fn free_ns(window: &Window) -> u64 {
    window.time_ns.saturating_sub(window.delay_ns).max(window.cpu_ns).max(1)
}

fn uses_storage(windows: &[Window]) -> bool {
    let using = windows.iter().filter(|w| w.storage_bytes > 0).count();
    using > 0 && using as f64 >= STORAGE_SHARE * windows.len() as f64
}

/// Whether only a clock wakes them. A thread that sleeps until a time is woken evenly in real time.
/// A thread that sleeps for a time is woken evenly if its waits for a CPU are left out.
fn is_periodic(windows: &[Window]) -> bool {
    [|w: &Window| w.time_ns, free_ns]
        .into_iter()
        .any(|clock_ns| is_even(windows, clock_ns) && !has_more(windows, clock_ns))
}

fn is_even(windows: &[Window], clock_ns: fn(&Window) -> u64) -> bool {
    let rate = |w: &Window| w.wakeups as f64 / seconds(clock_ns(w));
    let middle = usual(windows, rate);
    windows.len() >= EVEN_WINDOWS
        && middle >= EVEN_WAKEUPS
        && quantile(EVEN_SHARE, windows, |w| (rate(w) - middle).abs())
            <= (EVEN * middle).min(EVEN_BY.max(EVEN_AT_LEAST * middle))
}

/// Whether in some seconds another waker woke them too.
fn has_more(windows: &[Window], clock_ns: fn(&Window) -> u64) -> bool {
    let middle = usual(windows, |w| w.wakeups as f64 / seconds(clock_ns(w)));
    let more = windows.iter().filter(|w| {
        let clock = middle * seconds(clock_ns(w));
        w.wakeups as f64 - clock > MORE_WAKEUPS.max(MORE * clock)
    });
    let more = more.count();
    more >= MORE_WINDOWS && more as f64 >= MORE_SHARE * windows.len() as f64
}

/// The median of a number over windows; 0 without windows.
fn usual(windows: &[Window], number: impl Fn(&Window) -> f64) -> f64 {
    quantile(0.5, windows, number)
}

/// The number that such a share of the windows does not exceed; 0 without windows. They are
/// weighted by length, because a thread's last window can be short.
fn quantile(share: f64, windows: &[Window], number: impl Fn(&Window) -> f64) -> f64 {
    let mut numbers: Vec<_> = windows.iter().map(|w| (number(w), w.time_ns)).collect();
    tek_sort::by(&mut numbers, |(a, _), (b, _)| a.total_cmp(b));
    let all = numbers.iter().map(|(_, time)| time).sum::<u64>();
    let share = (share * all as f64).ceil() as u64;
    let mut below = 0;
    let found = numbers.iter().find(|(_, time)| {
        below += time;
        below >= share
    });
    found.map_or(0.0, |(number, _)| *number)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn second(wakeups: u64, cpu_ms: u64, delay_ms: u64) -> Window {
        Window {
            time_ns: 1000 * MS,
            wakeups,
            cpu_ns: cpu_ms * MS,
            delay_ns: delay_ms * MS,
            burst_ns: cpu_ms * MS / wakeups.max(1),
            ..Window::default()
        }
    }

    fn did(windows: &[Window]) -> Evidence {
        measure(windows, 0, Waker::Unknown)
    }

    #[test]
    fn the_time_in_which_a_thread_waited_for_a_cpu_is_left_out() {
        let evidence = did(&[second(2, 25, 500)]);
        assert_eq!(evidence.wakeups_per_s, 4.0);
        assert_eq!(evidence.cpu_share, 0.05);
        assert_eq!(evidence.delay_per_wakeup_ns, 250 * MS);
    }

    #[test]
    fn a_thread_that_would_never_stop_has_a_whole_cpu_however_little_it_gets() {
        // The wait of the second before is counted in this one.
        assert_eq!(did(&[second(0, 50, 950), second(0, 30, 1200)]).cpu_share, 1.0);
    }

    #[test]
    fn one_busy_second_does_not_hide_what_is_usual() {
        let usual = second(20, 10, 0);
        let evidence = measure(&[usual, second(1, 900, 0), usual], 7_000_000_000, Waker::Unknown);
        assert_eq!((evidence.wakeups_per_s, evidence.cpu_per_wakeup_ns), (20.0, MS / 2));
        assert_eq!((evidence.active_s, evidence.watched_s, evidence.wakeups), (3.0, 10.0, 41));
    }

    #[test]
    fn a_short_window_counts_little() {
        let short = Window { time_ns: 10 * MS, ..second(9, 1, 0) };
        assert_eq!(did(&[short, second(5, 1, 0)]).wakeups_per_s, 5.0);
    }

    #[test]
    fn a_clock_is_distinguished_from_events() {
        let clock = [20, 20, 19, 20].map(|wakeups| second(wakeups, 1, 0));
        let events = [20, 3, 45, 11].map(|wakeups| second(wakeups, 1, 0));
        let by_chance = [10, 10, 10, 10, 10, 4, 7, 12, 12].map(|wakeups| second(wakeups, 1, 0));
        let few = [2, 2, 2, 2].map(|wakeups| second(wakeups, 1, 0));
        assert!(did(&clock).periodic);
        for other in [&events[..], &by_chance, &few] {
            assert!(!did(other).periodic);
        }
    }

    #[test]
    fn a_clock_that_is_not_all_that_wakes_a_thread_is_none() {
        let woken = |often: &[u64]| {
            did(&often.iter().map(|&wakeups| second(wakeups, 1, 0)).collect::<Vec<_>>())
        };
        let clock = [10; 20];
        assert!(woken(&[&clock[..], &[40]].concat()).periodic, "its start");
        assert!(woken(&[&clock[..], &[2, 3, 4]].concat()).periodic, "it had to wait");
        assert!(!woken(&[&clock[..], &[15, 40, 25]].concat()).periodic);
    }

    #[test]
    fn a_clock_is_one_still_where_its_thread_waits_for_a_cpu() {
        // Asleep for 50 ms each time: the longer it waits, the more seldom it is woken.
        let waited = [0, 100, 300, 500, 700, 250];
        let sleeps_for = waited.map(|ms| second((1000 - ms) / 50, 1, ms));
        // Asleep until the next 50 ms: it is woken as often as before.
        let sleeps_until = waited.map(|ms| second(20, 1, ms));
        assert!(did(&sleeps_for).periodic);
        assert!(did(&sleeps_until).periodic);
    }

    #[test]
    fn without_windows_everything_is_zero() {
        assert_eq!(did(&[]), Evidence::default());
    }

    #[test]
    fn the_wake_ups_of_a_clock_are_even_and_due_at_its_interval() {
        let late = [9, 3, 5, 1].map(|wakeups| second(wakeups, 1, 700));
        let evidence = measure(&late, 0, Waker::Clock(50 * MS));
        assert_eq!((evidence.due_per_s, evidence.periodic), (20.0, true));
        assert_eq!((evidence.wakeups, evidence.due), (18, 24.0), "its waits for a CPU left out");
        let events = measure(&late, 0, Waker::Events);
        assert_eq!((events.due, events.periodic), (18.0, false));
        assert_eq!(measure(&late, 0, Waker::Clock(5000 * MS)).due, 18.0);
    }

    #[test]
    fn wake_ups_are_due_more_often_where_other_threads_wait_for_a_cpu() {
        let touch = did(&[second(1, 10, 0)]);
        assert_eq!((touch.due_per_s, touch.due), (1.0, 1.0));
        let held_up = touch.clone().held_up(0.5);
        assert_eq!((held_up.due_per_s, held_up.due, held_up.wakeups), (2.0, 2.0, 1));
        assert_eq!(touch.held_up(1.0).due_per_s, 4.0, "not for ever");
        let clock = measure(&[second(1, 10, 0)], 0, Waker::Clock(1000 * MS));
        assert_eq!(clock.held_up(0.5).due_per_s, 1.0);
    }

    #[test]
    fn many_events_are_no_clock_because_their_number_is_even() {
        let by_chance = [300, 309, 293, 305, 296, 311].map(|wakeups| second(wakeups, 1, 0));
        let clock = [300, 301, 300, 299, 300, 300].map(|wakeups| second(wakeups, 1, 0));
        assert!(!did(&by_chance).periodic && did(&clock).periodic);
    }

    #[test]
    fn storage_counts_if_it_was_used_in_most_seconds() {
        let used = |bytes| Window { storage_bytes: bytes, ..second(9, 1, 0) };
        assert!(did(&[used(4096), used(4096), used(0)]).uses_storage);
        assert!(!did(&[used(1 << 20), used(0), used(0)]).uses_storage);
        assert!(!did(&[]).uses_storage);
    }
}
