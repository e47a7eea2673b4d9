// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the equations need of a multiset R.
use super::RtPriority;

/// The input of the equations, from an R(k) that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// |R(k)|, at least 1.
    pub count: u64,
    /// The sum of the priorities; each counts as often as its task is in R(k).
    pub sum: u64,
    /// The highest priority.
    pub highest: RtPriority,
}

impl Summary {
    /// The mean priority in thousandths, to the nearest, a half upwards.
    pub fn mean_thousandths(&self) -> u64 {
        let count = u128::from(self.count.max(1));
        let mean = (u128::from(self.sum) * 2000 + count) / (2 * count);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }
}
