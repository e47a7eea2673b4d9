// SPDX-License-Identifier: MIT OR Apache-2.0
//! Equations (1), (2) and (3) of the paper: the priority of a kernel thread, from R(k).
//!
//! All results are rounded to the nearest priority, and a half upwards. Rounding down would deny
//! help to a task of priority 1 (0.8 × 1), and a half goes to the waiters.
//! Rounding happens once, at the end, so that no intermediate step adds an error.
//!
//! A result below 1 is no real-time priority: the thread has its usual policy.
//! No result is above the highest priority in R(k), and so none is above 99.
//! A result may be below the usual priority of the thread. An interrupt thread has 50, and 40 while
//! only a task at 40 waits for it. The thread thus does not preempt a task at 45.
use super::{Ratio, RtPriority, Summary, Weight};
use serde::Deserialize;
use std::fmt;

/// The method that computes the priority of a kernel thread from R(k).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Equation (1), priority inheritance: the highest priority in R(k).
    Plain,
    /// Equation (2): the weight times the mean priority of R(k). Equation (3), for kswapd,
    /// multiplies this by rt_page_ratio. Never above the highest priority in R(k).
    #[default]
    Weighted,
}

impl Method {
    /// The priority of a kernel thread; `of` is the summary of its R(k). `ratio` is [`Ratio::ONE`]
    /// except for kswapd. `None`: the thread has its default policy. [`Method::Plain`] ignores
    /// weight and ratio.
    pub fn priority(self, weight: Weight, ratio: Ratio, of: Option<Summary>) -> Option<RtPriority> {
        let Summary { count, sum, highest } = of.filter(|summary| summary.count > 0)?;
        if self == Self::Plain {
            return Some(highest);
        }
        let factor = u128::from(weight.thousandths()) * u128::from(ratio.thousandths());
        let (numerator, denominator) = (u128::from(sum) * factor, u128::from(count) * 1_000_000);
        let rounded = (2 * numerator + denominator) / (2 * denominator);
        let capped = rounded.min(u128::from(highest.get()));
        RtPriority::new(u32::try_from(capped).unwrap_or(0))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Weighted => "weighted",
        })
    }
}
