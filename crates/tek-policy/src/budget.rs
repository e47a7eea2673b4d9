// SPDX-License-Identifier: MIT OR Apache-2.0
//! Budgets: what the guard lets a time-critical thread use up.
use crate::value::Invalid;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tek_abi::options::{WINDOW_MAX_NS, WINDOW_MIN_NS};

/// `CPU/WINDOW` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Budget {
    /// No guard of ours.
    Off,
    /// This much CPU time in each window: for a rule in each window from its beginning to its end,
    /// for a process in any window.
    Limit {
        /// CPU time.
        cpu: Duration,
        /// Window.
        window: Duration,
    },
}

impl Budget {
    /// So much in each window.
    ///
    /// [`Invalid`] if out of range: a window has 10 ms to 1 h, and a budget is above 0 and at most
    /// its window.
    pub fn limit(cpu: Duration, window: Duration) -> Result<Self, Invalid> {
        let (least, most) = (WINDOW_MIN_NS.into(), WINDOW_MAX_NS);
        if !(Duration::from_nanos(least)..=Duration::from_nanos(most)).contains(&window) {
            return Err(Invalid::Window);
        }
        if cpu > window {
            return Err(Invalid::MoreThanTheWindow);
        }
        if cpu.is_zero() {
            return Err(Invalid::NoBudget);
        }
        Ok(Self::Limit { cpu, window })
    }

    /// This one, if no thread that keeps to it can overrun `granted`; else `granted`. The budget
    /// that a thread requests counts only if it is narrower than the granted one.
    pub fn or_wider(self, granted: Self) -> Self {
        let (Self::Limit { cpu, window }, Self::Limit { cpu: most, window: per }) = (self, granted)
        else {
            return if granted == Self::Off { self } else { granted };
        };
        // In a longer window all of it may be used at once.
        let is_narrower = cpu <= most
            && (window > per
                || cpu.as_nanos() * per.as_nanos() <= most.as_nanos() * window.as_nanos());
        if is_narrower {
            self
        } else {
            granted
        }
    }
}

impl FromStr for Budget {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (cpu, window) = text.split_once('/').ok_or(Invalid::BudgetForm)?;
        let (cpu, window) = (duration(cpu)?, duration(window)?);
        Self::limit(cpu, window)
    }
}

impl TryFrom<String> for Budget {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Budget> for String {
    fn from(budget: Budget) -> Self {
        budget.to_string()
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            // As one reads a Duration: 200ms, 1s; but never with a fraction or µs.
            Self::Limit { cpu, window } => write!(f, "{}/{}", shown(*cpu), shown(*window)),
        }
    }
}

const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// In the largest unit that needs no fraction.
fn shown(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let (unit, scale) = UNITS
        .into_iter()
        .find(|(_, scale)| ns.is_multiple_of(u128::from(*scale)))
        .unwrap_or(("ns", 1));
    format!("{}{unit}", ns / u128::from(scale))
}

fn duration(text: &str) -> Result<Duration, Invalid> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(Invalid::BudgetForm)?;
    let (number, unit) = text.split_at(digits);
    let (_, scale) =
        UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(Invalid::BudgetForm)?;
    let number: u64 = number.parse().map_err(|_| Invalid::BudgetForm)?;
    number.checked_mul(scale).map(Duration::from_nanos).ok_or(Invalid::BudgetForm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_narrower_budget_counts_beside_what_is_granted() {
        let budget = |text: &str| text.parse::<Budget>().unwrap();
        for (asked, granted, wanted) in [
            ("off", "off", "off"),
            ("10ms/1s", "off", "10ms/1s"),
            ("off", "800ms/1s", "800ms/1s"),
            ("200ms/1s", "800ms/1s", "200ms/1s"),
            ("900ms/1s", "800ms/1s", "800ms/1s"),
            ("90ms/100ms", "800ms/1s", "800ms/1s"),
            ("50ms/100ms", "800ms/1s", "50ms/100ms"),
            ("700ms/10s", "800ms/1s", "700ms/10s"),
            ("2s/10s", "800ms/1s", "800ms/1s"),
        ] {
            assert_eq!(
                budget(asked).or_wider(budget(granted)),
                budget(wanted),
                "{asked} {granted}"
            );
        }
    }
    use proptest::prelude::*;

    #[test]
    fn a_budget_is_shown_in_units_that_one_reads() {
        for text in ["200ms/1s", "1500us/20ms", "1ns/3600s", "off"] {
            assert_eq!(text.parse::<Budget>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_budget_in_range_is_taken_and_passed_on(
            cpu in 1u64..=1000,
            window in 1000u64..=60_000,
        ) {
            let text = format!("{cpu}ms/{window}ms");
            let budget: Budget = text.parse().unwrap();
            prop_assert_eq!(budget.to_string().parse::<Budget>(), Ok(budget));
        }
    }
}
