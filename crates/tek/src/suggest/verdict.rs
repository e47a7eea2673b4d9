// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is this a time-critical thread? A pure function of the measurement.
//!
//! tek-2020, V-A: "If a thread frequently handles user-level events during a short time period, it
//! is considered to be time-critical because it requires a short response time." From outside, such
//! a thread is woken often and is soon done each time.
use super::evidence::Evidence;
use crate::units::time;
use serde::Serialize;

/// Less than this is no evidence: seconds of activity, wake-ups that were due in them, and actual
/// wake-ups. A program's start and end alone wake its threads several times.
pub const LEAST_ACTIVE_S: f64 = 5.0;
const LEAST_DUE: f64 = 20.0;
const LEAST_WAKEUPS: u64 = 10;

/// If a thread waits for storage at more than this share of its waits, storage wakes it.
const MOST_STORAGE: f64 = 0.5;

/// The borders. Their reasons are in [`super::AFTER_HELP`].
#[derive(Clone, Copy, Debug, PartialEq, clap::Args, Serialize)]
pub struct Thresholds {
    /// Fewest wake-ups per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 2.0, value_parser = rate)]
    pub min_rate: f64,

    /// Most wake-ups per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1000.0, value_parser = rate)]
    pub max_rate: f64,

    /// Most CPU time from one wake-up to the next, in ms
    #[arg(long, value_name = "MS", default_value_t = 50.0, value_parser = rate)]
    pub max_burst: f64,

    /// Largest share of one CPU, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, value_parser = percent)]
    pub max_share: f64,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = rate(text).ok().filter(|number| *number <= 100.0);
    number.ok_or_else(|| "write a number from 0 to 100: a thread has one CPU at a time".into())
}

impl Thresholds {
    /// Why no thread can ever be suggested.
    pub fn contradiction(&self) -> Option<String> {
        (self.min_rate > self.max_rate)
            .then(|| format!("--min-rate {} is above --max-rate {}", self.min_rate, self.max_rate))
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "write a number that is 0 or more".into())
}

/// Why threads are not suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It needs more of a CPU than a time-critical thread should.
    CpuBound,
    /// It waits for storage rather than for events.
    WaitsForStorage,
    /// It is woken too seldom.
    RarelyWoken,
    /// It is woken more often than any event of people or devices happens.
    BusyPoller,
    /// It works for too long each time.
    LongBursts,
    /// There are too few samples of it.
    HardlySeen,
    /// Its program made it real-time itself.
    RealTime,
    /// No rule can distinguish it from other threads.
    NoName,
    /// Its name cannot be written into a rule.
    OddName,
    /// Perhaps it is: a clock wakes it, and only its program's user knows whether its result is
    /// waited for.
    WokenEvenly,
}

/// Why threads with this evidence are not suggested; `None`: they are, or perhaps, if woken evenly.
pub fn why_not(evidence: &Evidence, borders: &Thresholds) -> Option<Reason> {
    if evidence.cpu_share * 100.0 > borders.max_share {
        Some(Reason::CpuBound)
    } else if evidence.storage_share > MOST_STORAGE || evidence.uses_storage {
        Some(Reason::WaitsForStorage)
    } else if evidence.due_per_s < borders.min_rate {
        Some(Reason::RarelyWoken)
    } else if evidence.wakeups_per_s > borders.max_rate {
        Some(Reason::BusyPoller)
    } else if evidence.cpu_per_wakeup_ns as f64 / 1e6 > borders.max_burst {
        Some(Reason::LongBursts)
    } else if is_hardly_seen(evidence) {
        Some(Reason::HardlySeen)
    } else {
        None
    }
}

fn is_hardly_seen(evidence: &Evidence) -> bool {
    evidence.active_s < LEAST_ACTIVE_S
        || evidence.wakeups < LEAST_WAKEUPS
        || evidence.due < LEAST_DUE
}

/// Whether the threads sleep soon after each wake-up, and so may wake further threads.
pub fn is_soon_done(evidence: &Evidence, borders: &Thresholds) -> bool {
    let burst_ms = evidence.cpu_per_wakeup_ns as f64 / 1e6;
    evidence.cpu_share * 100.0 <= borders.max_share && burst_ms <= borders.max_burst
}

impl Reason {
    /// The reason in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::HardlySeen => "hardly seen",
            Self::CpuBound => "CPU-bound",
            Self::WaitsForStorage => "waits for storage",
            Self::RarelyWoken => "rarely woken",
            Self::BusyPoller => "polls",
            Self::LongBursts => "long bursts",
            Self::RealTime => "real-time already",
            Self::NoName => "has no name",
            Self::OddName => "has an odd name",
            Self::WokenEvenly => "perhaps",
        }
    }

    /// The reason as a person reads it, with the option that moves the border.
    pub fn text(self, evidence: &Evidence, borders: &Thresholds) -> String {
        match self {
            Self::HardlySeen => format!(
                "would be suggested, but was hardly seen: active for {:.1} s, woken {} times; \
                 watch it longer, at work",
                evidence.active_s, evidence.wakeups
            ),
            Self::CpuBound => format!(
                "CPU-bound, or polls without sleeping: it wants {:.0}% of a CPU, above \
                 --max-share {}",
                evidence.cpu_share * 100.0,
                borders.max_share
            ),
            Self::WaitsForStorage if evidence.storage_share <= MOST_STORAGE => {
                "waits for storage: it read or wrote files in most of its seconds".into()
            }
            Self::WaitsForStorage => format!(
                "waits for storage, not for events, in {:.0}% of its waits",
                evidence.storage_share * 100.0
            ),
            Self::RarelyWoken if evidence.wakeups == 0 => {
                format!("rarely woken: below --min-rate {}", borders.min_rate)
            }
            Self::RarelyWoken => format!(
                "rarely woken: {:.1} times a second, below --min-rate {}",
                evidence.due_per_s, borders.min_rate
            ),
            Self::BusyPoller => format!(
                "polls, or is part of a pipeline: woken {:.0} times a second, above --max-rate {}",
                evidence.wakeups_per_s, borders.max_rate
            ),
            Self::LongBursts => format!(
                "works too long each time: {} of CPU time, above --max-burst {}",
                time(evidence.cpu_per_wakeup_ns),
                borders.max_burst
            ),
            Self::RealTime => "would be suggested, but is real-time already".into(),
            Self::NoName => {
                "would be suggested, but no rule can tell it from others: it has no name \
                of its own, and what it runs is not known, or others run it too; give it a name in \
                the program (pthread_setname_np)"
                    .into()
            }
            Self::OddName => {
                "would be suggested, but its name cannot be written into a rule: give \
                it another one in the program (pthread_setname_np)"
                    .into()
            }
            Self::WokenEvenly => "perhaps: woken evenly, as by a clock".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::Waker;
    use super::super::evidence::measure;
    use super::super::window::Window;
    use super::*;
    use proptest::prelude::*;

    const BORDERS: Thresholds =
        Thresholds { min_rate: 2.0, max_rate: 1000.0, max_burst: 50.0, max_share: 50.0 };

    fn touch() -> Evidence {
        Evidence {
            active_s: 10.0,
            watched_s: 12.0,
            wakeups: 60,
            wakeups_per_s: 6.0,
            due_per_s: 6.0,
            due: 60.0,
            cpu_per_wakeup_ns: 10_000_000,
            cpu_share: 0.06,
            ..Evidence::default()
        }
    }

    #[test]
    fn a_thread_that_is_woken_often_and_soon_done_is_time_critical() {
        assert_eq!(why_not(&touch(), &BORDERS), None);
        // An audio thread, by the clock.
        let audio = Evidence { wakeups_per_s: 375.0, periodic: true, ..touch() };
        assert_eq!(why_not(&audio, &BORDERS), None);
    }

    #[test]
    fn each_other_thread_has_its_reason() {
        let reason = |evidence: Evidence| why_not(&evidence, &BORDERS).unwrap();
        assert_eq!(reason(Evidence { cpu_share: 1.0, ..touch() }), Reason::CpuBound);
        assert_eq!(reason(Evidence { storage_share: 0.9, ..touch() }), Reason::WaitsForStorage);
        assert_eq!(reason(Evidence { due_per_s: 1.0, ..touch() }), Reason::RarelyWoken);
        assert_eq!(reason(Evidence { wakeups_per_s: 9000.0, ..touch() }), Reason::BusyPoller);
        assert_eq!(reason(Evidence { active_s: 0.4, ..touch() }), Reason::HardlySeen);
        assert_eq!(reason(Evidence { due: 19.0, ..touch() }), Reason::HardlySeen);
        assert_eq!(reason(Evidence { wakeups: 9, ..touch() }), Reason::HardlySeen);
        let long = Evidence { cpu_per_wakeup_ns: 60_000_000, ..touch() };
        assert_eq!(reason(long), Reason::LongBursts);
    }

    #[test]
    fn a_reason_names_the_option_that_would_change_it() {
        for (reason, option) in [
            (Reason::CpuBound, "--max-share"),
            (Reason::RarelyWoken, "--min-rate"),
            (Reason::BusyPoller, "--max-rate"),
            (Reason::LongBursts, "--max-burst"),
        ] {
            assert!(reason.text(&touch(), &BORDERS).contains(option));
        }
    }

    fn windows() -> impl Strategy<Value = Vec<Window>> {
        let window = (1u64..=2_000_000_000, 0u64..5000, 0u64..=2_000_000_000, 0u64..4_000_000_000)
            .prop_map(|(time_ns, wakeups, cpu_ns, delay_ns)| {
                let cpu_ns = cpu_ns.min(time_ns);
                let burst_ns = cpu_ns / wakeups.max(1);
                Window { time_ns, wakeups, cpu_ns, delay_ns, burst_ns, ..Window::default() }
            });
        proptest::collection::vec(window, 0..20)
    }

    proptest! {
        #[test]
        fn the_numbers_are_numbers_and_no_thread_has_more_than_a_cpu(windows in windows()) {
            let evidence = measure(&windows, 0, Waker::Unknown);
            prop_assert!(evidence.wakeups_per_s.is_finite() && evidence.wakeups_per_s >= 0.0);
            prop_assert!((0.0..=1.0).contains(&evidence.cpu_share));
        }

        #[test]
        fn the_order_of_the_seconds_does_not_matter(mut windows in windows()) {
            let forwards = measure(&windows, 5, Waker::Unknown);
            windows.reverse();
            prop_assert_eq!(forwards, measure(&windows, 5, Waker::Unknown));
        }

        #[test]
        fn wider_borders_never_take_a_suggestion_back(windows in windows(), by in 1.0f64..10.0) {
            let wider = Thresholds {
                min_rate: BORDERS.min_rate / by,
                max_rate: BORDERS.max_rate * by,
                max_burst: BORDERS.max_burst * by,
                max_share: BORDERS.max_share * by,
            };
            let evidence = measure(&windows, 0, Waker::Unknown);
            if why_not(&evidence, &BORDERS).is_none() {
                prop_assert_eq!(why_not(&evidence, &wider), None);
            }
        }

        #[test]
        fn a_thread_that_never_sleeps_is_never_suggested(windows in windows()) {
            let hog: Vec<_> = windows
                .into_iter()
                .map(|window| {
                    let cpu_ns = window.time_ns - window.delay_ns.min(window.time_ns - 1);
                    Window { cpu_ns, ..window }
                })
                .collect();
            prop_assert!(why_not(&measure(&hog, 0, Waker::Unknown), &BORDERS).is_some());
        }
    }
}
