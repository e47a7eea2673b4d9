// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few numbers by which threads are judged.
use super::window::Window;
use serde::Serialize;

/// Threads count as woken evenly where so many of their seconds are within this share of the usual
/// number of wake-ups ...
const EVEN_SHARE: f64 = 2.0 / 3.0;
const EVEN: f64 = 0.05;
/// ... and that number is large enough for it to mean something, as is that of seconds.
const EVEN_WAKEUPS: f64 = 8.0;
const EVEN_WINDOWS: usize = 3;

/// They are woken by something else as well where in so many seconds, and in so large a share of
/// them, there were clearly more wake-ups than usual. Its start alone gives each thread one such.
const MORE: f64 = 0.25;
const MORE_WAKEUPS: f64 = 2.0;
const MORE_WINDOWS: usize = 2;
const MORE_SHARE: f64 = 0.1;

/// What threads of one kind did in the seconds in which they ran: "usual" is the median of these
/// seconds, of all the threads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// How long they were active, together: the length of the seconds in which they ran.
    pub active_s: f64,
    /// How long they were watched, together.
    pub watched_s: f64,
    /// Wake-ups in all.
    pub wakeups: u64,
    /// Usual wake-ups per second, the time spent waiting for a CPU left out: on a busy machine a
    /// thread that is woken seldom because it cannot keep up is not taken for an idle one.
    pub wakeups_per_s: f64,
    /// Usual CPU time from one wake-up to the next.
    pub cpu_per_wakeup_ns: u64,
    /// Usual share of a CPU, the time spent waiting for one left out: 1 for a thread that would
    /// never stop, however little it gets.
    pub cpu_share: f64,
    /// Mean time that they waited for a CPU after a wake-up.
    pub delay_per_wakeup_ns: u64,
    /// Of the looks at which they did not run, the share at which they waited for storage.
    pub storage_share: f64,
    /// Whether they are woken evenly, as by a clock, and by nothing else.
    pub periodic: bool,
}

/// Works the numbers out. The order of the windows does not matter.
pub fn measure(windows: &[Window], asleep_ns: u64) -> Evidence {
    let sum = |field: fn(&Window) -> u64| windows.iter().map(field).sum::<u64>();
    let (time_ns, wakeups) = (sum(|w| w.time_ns), sum(|w| w.wakeups));
    let storage = sum(|w| w.storage);
    Evidence {
        active_s: seconds(time_ns),
        watched_s: seconds(time_ns + asleep_ns),
        wakeups,
        wakeups_per_s: usual(windows, |w| w.wakeups as f64 / seconds(free_ns(w))),
        cpu_per_wakeup_ns: usual(windows, |w| w.burst_ns as f64) as u64,
        cpu_share: usual(windows, |w| w.cpu_ns as f64 / free_ns(w) as f64),
        delay_per_wakeup_ns: sum(|w| w.delay_ns) / wakeups.max(1),
        storage_share: storage as f64 / (storage + sum(|w| w.sleeping)).max(1) as f64,
        periodic: is_periodic(windows),
    }
}

/// The part of a window in which the thread ran or slept of its own will. The kernel books a wait
/// for a CPU when it is over, so that it can seem longer than the window.
fn free_ns(window: &Window) -> u64 {
    window.time_ns.saturating_sub(window.delay_ns).max(window.cpu_ns).max(1)
}

/// Whether a clock wakes them and nothing else. A thread that sleeps until a time is woken evenly
/// in real time. A thread that sleeps for a time is woken evenly if its waits for a CPU are left
/// out.
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
        && quantile(EVEN_SHARE, windows, |w| (rate(w) - middle).abs()) <= EVEN * middle
}

/// Whether there were seconds in which something else than the clock woke them.
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

/// What such a share of the windows does not exceed; they count by their length, for the last one
/// of a thread can be short. 0 without windows.
fn quantile(share: f64, windows: &[Window], number: impl Fn(&Window) -> f64) -> f64 {
    let mut numbers: Vec<_> = windows.iter().map(|w| (number(w), w.time_ns)).collect();
    numbers.sort_by(|(a, _), (b, _)| a.total_cmp(b));
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

    #[test]
    fn the_time_in_which_a_thread_waited_for_a_cpu_is_left_out() {
        let evidence = measure(&[second(2, 25, 500)], 0);
        assert_eq!(evidence.wakeups_per_s, 4.0);
        assert_eq!(evidence.cpu_share, 0.05);
        assert_eq!(evidence.delay_per_wakeup_ns, 250 * MS);
    }

    #[test]
    fn a_thread_that_would_never_stop_has_a_whole_cpu_however_little_it_gets() {
        // The wait of the second before is booked in this one.
        assert_eq!(measure(&[second(0, 50, 950), second(0, 30, 1200)], 0).cpu_share, 1.0);
    }

    #[test]
    fn one_busy_second_does_not_hide_what_is_usual() {
        let usual = second(20, 10, 0);
        let evidence = measure(&[usual, second(1, 900, 0), usual], 7_000_000_000);
        assert_eq!((evidence.wakeups_per_s, evidence.cpu_per_wakeup_ns), (20.0, MS / 2));
        assert_eq!((evidence.active_s, evidence.watched_s, evidence.wakeups), (3.0, 10.0, 41));
    }

    #[test]
    fn a_short_window_counts_little() {
        let short = Window { time_ns: 10 * MS, ..second(9, 1, 0) };
        assert_eq!(measure(&[short, second(5, 1, 0)], 0).wakeups_per_s, 5.0);
    }

    #[test]
    fn a_clock_is_told_from_events() {
        let clock = [20, 20, 19, 20].map(|wakeups| second(wakeups, 1, 0));
        let events = [20, 3, 45, 11].map(|wakeups| second(wakeups, 1, 0));
        let by_chance = [10, 10, 10, 10, 10, 4, 7, 12, 12].map(|wakeups| second(wakeups, 1, 0));
        let few = [2, 2, 2, 2].map(|wakeups| second(wakeups, 1, 0));
        assert!(measure(&clock, 0).periodic);
        for other in [&events[..], &by_chance, &few] {
            assert!(!measure(other, 0).periodic);
        }
    }

    #[test]
    fn a_clock_that_is_not_all_that_wakes_a_thread_is_none() {
        let woken = |often: &[u64]| {
            measure(&often.iter().map(|&wakeups| second(wakeups, 1, 0)).collect::<Vec<_>>(), 0)
        };
        let clock = [10; 20];
        assert!(woken(&[&clock[..], &[40]].concat()).periodic, "its start");
        assert!(woken(&[&clock[..], &[2, 3, 4]].concat()).periodic, "it had to wait");
        assert!(!woken(&[&clock[..], &[15, 40, 25]].concat()).periodic);
    }

    #[test]
    fn a_clock_is_one_still_where_its_thread_waits_for_a_cpu() {
        // Asleep for 50 ms each time, it is woken the seldomer the longer it has to wait.
        let waited = [0, 100, 300, 500, 700, 250];
        let sleeps_for = waited.map(|ms| second((1000 - ms) / 50, 1, ms));
        // Asleep until the next 50 ms, it is woken as often as ever.
        let sleeps_until = waited.map(|ms| second(20, 1, ms));
        assert!(measure(&sleeps_for, 0).periodic);
        assert!(measure(&sleeps_until, 0).periodic);
    }

    #[test]
    fn without_windows_everything_is_zero() {
        assert_eq!(measure(&[], 0), Evidence::default());
    }
}
