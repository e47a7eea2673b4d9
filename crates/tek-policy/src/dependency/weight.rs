// SPDX-License-Identifier: MIT OR Apache-2.0
//! w and rt_page_ratio of the equations, in thousandths.
//!
//! Whole numbers, so that a priority is the same on each device and comparable with a priority that
//! was computed by hand.
use serde::de::{Deserializer, Error, Visitor};
use serde::Deserialize;
use std::fmt;

/// The number is no weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the weight {0} is none: write 0.1 to 10, with at most three digits after the point")]
pub struct InvalidWeight(String);

/// The factor of a kernel thread for its waiters' mean priority: 0.1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// 0.8: for kernel threads that delay a task indirectly, such as workers. Below 1 a kernel
    /// thread stays below its waiters, and delays other threads less.
    pub const INDIRECT: Self = Self(800);
    /// 1.2: for kernel threads that delay a task directly. The result is capped at the highest.
    pub const DIRECT: Self = Self(1200);
    /// 1: the mean itself.
    pub const EVEN: Self = Self(1000);

    /// From thousandths, 100 to 10000.
    pub fn from_thousandths(thousandths: u32) -> Result<Self, InvalidWeight> {
        match (100..=10_000).contains(&thousandths) {
            true => Ok(Self(thousandths)),
            false => Err(InvalidWeight(Self(thousandths).to_string())),
        }
    }

    /// 100 to 10000.
    pub fn thousandths(self) -> u32 {
        self.0
    }

    fn from_decimal(decimal: f64) -> Result<Self, InvalidWeight> {
        let thousandths = (decimal * 1000.0).round();
        let fits = (100.0..=10_000.0).contains(&thousandths);
        match fits && (decimal * 1000.0 - thousandths).abs() < 1e-6 {
            // The number is whole and within the range.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            true => Self::from_thousandths(thousandths as u32),
            false => Err(InvalidWeight(decimal.to_string())),
        }
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(self.0, f)
    }
}

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Decimal;
        impl Visitor<'_> for Decimal {
            type Value = Weight;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a weight, 0.1 to 10")
            }

            fn visit_f64<E: Error>(self, decimal: f64) -> Result<Weight, E> {
                Weight::from_decimal(decimal).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, whole: i64) -> Result<Weight, E> {
                let thousandths = u32::try_from(whole).ok().and_then(|it| it.checked_mul(1000));
                let weight = thousandths.and_then(|it| Weight::from_thousandths(it).ok());
                weight.ok_or_else(|| E::custom(InvalidWeight(whole.to_string())))
            }
        }
        from.deserialize_any(Decimal)
    }
}

/// A part of a whole, 0 to 1: rt_page_ratio of equation (3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

impl Ratio {
    /// No part.
    pub const ZERO: Self = Self(0);
    /// The whole: the ratio of all kernel threads but kswapd.
    pub const ONE: Self = Self(1000);

    /// From thousandths; larger values count as 1.
    pub fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths.min(1000))
    }

    /// `part` ÷ `whole`, to the nearest thousandth, and 0 for an empty whole. A part that exceeds
    /// the whole counts as 1, because the numbers may be counted at different moments.
    pub fn of(part: u64, whole: u64) -> Self {
        let (part, whole) = (u128::from(part.min(whole)), u128::from(whole));
        let thousandths = (part * 2000 + whole).checked_div(2 * whole).unwrap_or(0);
        Self(u32::try_from(thousandths).unwrap_or(1000))
    }

    /// 0 to 1000.
    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(self.0, f)
    }
}

/// Thousandths as a decimal number without zeros at its end.
fn decimal(thousandths: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_are_shown_as_they_are_written() {
        let shown = |thousandths| Weight::from_thousandths(thousandths).unwrap().to_string();
        assert_eq!(
            [100, 800, 1200, 1000, 10_000, 1005].map(shown),
            ["0.1", "0.8", "1.2", "1", "10", "1.005"]
        );
        assert_eq!(
            (Ratio::ZERO.to_string(), Ratio::ONE.to_string()),
            ("0".to_owned(), "1".to_owned())
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for bad in [0, 99, 10_001, u32::MAX] {
            assert!(Weight::from_thousandths(bad).unwrap_err().to_string().contains("0.1 to 10"));
        }
        for bad in [0.0, 0.0999, 10.001, -1.0, f64::NAN, f64::INFINITY, 0.8001] {
            assert!(Weight::from_decimal(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn a_ratio_is_between_nothing_and_all() {
        assert_eq!(
            (Ratio::of(0, 0), Ratio::of(3, 0), Ratio::of(0, 9)),
            (Ratio::ZERO, Ratio::ZERO, Ratio::ZERO)
        );
        assert_eq!(
            (Ratio::of(9, 9), Ratio::of(10, 9), Ratio::of(u64::MAX, u64::MAX)),
            (Ratio::ONE, Ratio::ONE, Ratio::ONE)
        );
        assert_eq!((Ratio::of(3, 10).thousandths(), Ratio::of(1, 3).thousandths()), (300, 333));
        assert_eq!(Ratio::of(1, 2000).thousandths(), 1);
    }

    proptest! {
        #[test]
        fn every_weight_is_read_as_it_is_shown(thousandths in 100u32..=10_000) {
            let weight = Weight::from_thousandths(thousandths).unwrap();
            prop_assert_eq!(Weight::from_decimal(weight.to_string().parse().unwrap()), Ok(weight));
        }
    }
}
