// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights of groups: the share of CPU time that each group gets where several compete.
//!
//! In normal mode the four groups share it by their weights. In responsiveness mode the Fast Region
//! is a group beside all of them together, the Lazy Region, which keeps a floor.
use crate::rule::Group;
use serde::{Deserialize, Serialize};
use std::fmt;

/// cpu.shares of a group on cgroup v1 that means the same as a cpu.weight of 100 on v2: what both
/// have from the kernel.
const DEFAULT_SHARES: u32 = 1024;
const DEFAULT_WEIGHT: u32 = 100;

/// It is no weight, or no floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWeight {
    /// Not what the kernel takes.
    #[error("the weight {0} is none: write 1 to 10000, 100 being the kernel's own")]
    Weight(u32),
    /// Without a floor the Lazy Region would starve; with more than half it would be the fast one.
    #[error(
        "the floor {0} is none: write 1 to 50, the percentage of each CPU that all others keep"
    )]
    Floor(u32),
}

/// How much of the CPU a group gets beside other groups that want it: 1 to 10000, as cpu.weight of
/// cgroup v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Weight(u32);

impl Weight {
    /// The default weight of a group.
    pub const DEFAULT: Self = Self(DEFAULT_WEIGHT);

    /// [`InvalidWeight::Weight`] if it is not within 1 to 10000.
    pub fn new(weight: u32) -> Result<Self, InvalidWeight> {
        match (1..=10_000).contains(&weight) {
            true => Ok(Self(weight)),
            false => Err(InvalidWeight::Weight(weight)),
        }
    }

    /// For cpu.weight of cgroup v2.
    pub fn weight(self) -> u32 {
        self.0
    }

    /// For cpu.shares of cgroup v1, 10 to 102400, which the kernel takes as it is (2 to 262144).
    pub fn shares(self) -> u32 {
        self.0 * DEFAULT_SHARES / DEFAULT_WEIGHT
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u32> for Weight {
    type Error = InvalidWeight;

    fn try_from(weight: u32) -> Result<Self, InvalidWeight> {
        Self::new(weight)
    }
}

impl From<Weight> for u32 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The share of each CPU that the Lazy Region keeps while the Fast Region is busy: 1 to 50 percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Floor(u32);

impl Floor {
    /// The share that the kernel leaves to ordinary threads beside real-time ones.
    pub const DEFAULT: Self = Self(5);

    /// [`InvalidWeight::Floor`] if it is not within 1 to 50.
    pub fn new(percent: u32) -> Result<Self, InvalidWeight> {
        match (1..=50).contains(&percent) {
            true => Ok(Self(percent)),
            false => Err(InvalidWeight::Floor(percent)),
        }
    }

    /// 1 to 50.
    pub fn percent(self) -> u32 {
        self.0
    }

    /// The Fast Region's cpu.weight on cgroup v2 beside a Lazy Region of [`Weight::DEFAULT`], 100
    /// to 9900. The Lazy Region keeps the kernel's own weight, so one write enters the mode and one
    /// leaves it.
    pub fn fast_weight(self) -> u32 {
        self.beside(DEFAULT_WEIGHT)
    }

    /// The same for cpu.shares on cgroup v1: 1024 to 101376.
    pub fn fast_shares(self) -> u32 {
        self.beside(DEFAULT_SHARES)
    }

    /// `lazy` × (100 - floor) / floor, rounded.
    fn beside(self, lazy: u32) -> u32 {
        (lazy * (100 - self.0) + self.0 / 2) / self.0
    }
}

impl Default for Floor {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<u32> for Floor {
    type Error = InvalidWeight;

    fn try_from(percent: u32) -> Result<Self, InvalidWeight> {
        Self::new(percent)
    }
}

impl From<Floor> for u32 {
    fn from(floor: Floor) -> Self {
        floor.0
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// The weight of each group, and the floor.
///
/// By default `normal` has the kernel's own weight. `urgent` has 4 times that: the visible program
/// gets 80% of a CPU beside one busy `normal` group. `service` has half, so that daemons keep up
/// with their requests. `background` has a tenth, which is enough for progress.
/// A group without runnable threads costs the other groups nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// 400 by default.
    pub urgent: Weight,
    /// 100 by default.
    pub normal: Weight,
    /// 50 by default.
    pub service: Weight,
    /// 10 by default.
    pub background: Weight,
    /// 5% by default.
    pub floor: Floor,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            urgent: Weight(400),
            normal: Weight::DEFAULT,
            service: Weight(50),
            background: Weight(10),
            floor: Floor::DEFAULT,
        }
    }
}

impl Weights {
    /// The weight of a group.
    pub fn of(&self, group: Group) -> Weight {
        match group {
            Group::Urgent => self.urgent,
            Group::Normal => self.normal,
            Group::Service => self.service,
            Group::Background => self.background,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lazy_percent(fast: u32, lazy: u32) -> f64 {
        f64::from(lazy) * 100.0 / f64::from(fast + lazy)
    }

    #[test]
    fn the_defaults_mean_the_same_on_version_1_and_2() {
        let weights = Weights::default();
        let pairs =
            Group::ALL.map(|group| (weights.of(group).weight(), weights.of(group).shares()));
        assert_eq!(pairs, [(100, 1024), (400, 4096), (50, 512), (10, 102)]);
        assert_eq!((weights.floor.fast_weight(), weights.floor.fast_shares()), (1900, 19456));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        assert_eq!(Weight::new(0), Err(InvalidWeight::Weight(0)));
        assert_eq!(Floor::new(51), Err(InvalidWeight::Floor(51)));
        let error = Weight::new(10_001).unwrap_err().to_string();
        assert!(error.contains("1 to 10000"), "{error}");
        assert!(Floor::new(0).unwrap_err().to_string().contains("1 to 50"));
    }

    #[test]
    fn weights_are_read_with_their_ranges_and_defaults() {
        let read = |text: &str| toml::from_str::<Weights>(text);
        assert_eq!(read("").unwrap(), Weights::default());
        let weights = read("background = 1\nfloor = 10").unwrap();
        assert_eq!((weights.background.weight(), weights.floor.percent()), (1, 10));
        for bad in ["urgent = 0", "floor = 51", "lazy = 5", "normal = -1", "service = \"50\""] {
            assert!(read(bad).is_err(), "{bad} was taken");
        }
        let text = toml::to_string(&weights).unwrap();
        assert_eq!(read(&text).unwrap(), weights);
    }

    proptest! {
        #[test]
        fn every_floor_holds_to_a_fifth_of_a_point_on_version_1_and_2(percent in 1u32..=50) {
            let floor = Floor::new(percent).unwrap();
            let (weight, shares) = (floor.fast_weight(), floor.fast_shares());
            prop_assert!((1..=10_000).contains(&weight) && (2..=262_144).contains(&shares));
            let (lazy, wanted) = (Weight::DEFAULT, f64::from(percent));
            prop_assert!((lazy_percent(weight, lazy.weight()) - wanted).abs() <= 0.2);
            prop_assert!((lazy_percent(shares, lazy.shares()) - wanted).abs() <= 0.2);
        }

        #[test]
        fn every_weight_is_in_the_ranges_of_version_1_and_2(weight in 1u32..=10_000) {
            let weight = Weight::new(weight).unwrap();
            prop_assert!((2..=262_144).contains(&weight.shares()));
            let (of_v1, of_v2) = (f64::from(weight.shares()), f64::from(weight.weight()));
            prop_assert!((of_v1 * 100.0 / 1024.0 - of_v2).abs() < 0.1);
        }
    }
}
