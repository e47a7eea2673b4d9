// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of the Stack Tuner: the table `[stack]` of a rules file, and the same on a command
//! line.
use crate::Size;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;
use tek_abi::options::{STACK_FLOOR_MOST, STACK_MARGIN_LEAST, STACK_MARGIN_MOST};

/// The mistake in a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStack {
    /// No share.
    #[error("write a share of the stack from 0% to 100%, as in 25%")]
    Percent,
    /// No factor.
    #[error("write how much of what was used a stack gets, from 1 to 100, as in 1.5")]
    Margin,
    /// No size.
    #[error("write a size up to 1G, in bytes or with K, M or G (KiB, MiB, GiB), as in 64K")]
    Size,
    /// Not two shares.
    #[error("write LOW-HIGH, two shares of the stack with the lower one first, as in 25%-80%")]
    Zones,
}

/// A share of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(pub u8);

impl FromStr for Percent {
    type Err = InvalidStack;

    fn from_str(text: &str) -> Result<Self, InvalidStack> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let number = whole_number(digits).filter(|&number| number <= 100);
        number.map(|number| Self(number as u8)).ok_or(InvalidStack::Percent)
    }
}

/// How much of what was used a stack gets, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin(pub u32);

impl Margin {
    fn new(factor: f64) -> Result<Self, InvalidStack> {
        let (least, most) = (f64::from(STACK_MARGIN_LEAST), f64::from(STACK_MARGIN_MOST));
        let percent = factor * 100.0;
        let valid = (least..=most).contains(&percent);
        valid.then(|| Self(percent.round() as u32)).ok_or(InvalidStack::Margin)
    }
}

impl FromStr for Margin {
    type Err = InvalidStack;

    fn from_str(text: &str) -> Result<Self, InvalidStack> {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let factor = text.parse().ok().filter(|_| plain).ok_or(InvalidStack::Margin)?;
        Self::new(factor)
    }
}

/// A size of a stack, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackSize(pub u64);

impl FromStr for StackSize {
    type Err = InvalidStack;

    fn from_str(text: &str) -> Result<Self, InvalidStack> {
        let Size(bytes) = text.parse().map_err(|_| InvalidStack::Size)?;
        (bytes <= STACK_FLOOR_MOST.into()).then_some(Self(bytes)).ok_or(InvalidStack::Size)
    }
}

fn whole_number(digits: &str) -> Option<u64> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all_digits)
}

/// `LOW-HIGH`: where the zones of a stack meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackZones {
    /// A stack of which less is used is in the Low Zone,
    pub low: Percent,
    /// and one of which more is used in the High Zone.
    pub high: Percent,
}

impl FromStr for StackZones {
    type Err = InvalidStack;

    fn from_str(text: &str) -> Result<Self, InvalidStack> {
        let (low, high) = text.split_once('-').ok_or(InvalidStack::Zones)?;
        let [low, high] = [low, high].map(|text| text.parse::<Percent>());
        match (low, high) {
            (Ok(low), Ok(high)) if low <= high => Ok(Self { low, high }),
            _ => Err(InvalidStack::Zones),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

fn from_text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err = InvalidStack>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn from_factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Margin>, D::Error> {
    let factor = f64::deserialize(deserializer)?;
    Margin::new(factor).map(Some).map_err(serde::de::Error::custom)
}

/// The table `[stack]`. What is not set is left to the mode of the Stack Tuner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StackSettings {
    /// A stack of which less is used is in the Low Zone.
    #[serde(deserialize_with = "from_text")]
    pub low: Option<Percent>,
    /// One of which more is used is in the High Zone.
    #[serde(deserialize_with = "from_text")]
    pub high: Option<Percent>,
    /// How much of what was used at most a stack gets.
    #[serde(deserialize_with = "from_factor")]
    pub margin: Option<Margin>,
    /// No stack is made smaller.
    #[serde(deserialize_with = "from_text")]
    pub floor: Option<StackSize>,
}

impl StackSettings {
    /// These, with what `later` sets in their place.
    #[must_use]
    pub fn overridden_by(self, later: Self) -> Self {
        Self {
            low: later.low.or(self.low),
            high: later.high.or(self.high),
            margin: later.margin.or(self.margin),
            floor: later.floor.or(self.floor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_margins_and_sizes_are_read() {
        let shares = ["0%", "25", "100%"].map(|text| text.parse::<Percent>().unwrap());
        assert_eq!(shares, [0, 25, 100].map(Percent));
        let margins = ["1", "1.5", "100"].map(|text| text.parse::<Margin>().unwrap());
        assert_eq!(margins, [100, 150, 10_000].map(Margin));
        let sizes =
            ["0", "4096", "64KiB", "1m", "1G"].map(|text| text.parse::<StackSize>().unwrap());
        assert_eq!(sizes, [0, 4096, 65536, 1 << 20, 1 << 30].map(StackSize));
        let zones: StackZones = "25%-80%".parse().unwrap();
        assert_eq!((zones.low, zones.high), (Percent(25), Percent(80)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in ["", "%", "101%", "-1%", "+5%", "5%%", "1.5%"] {
            assert_eq!(bad.parse::<Percent>(), Err(InvalidStack::Percent), "{bad:?}");
        }
        for bad in ["", "0.9", "101", "-1", "1,5", "inf", "NaN", "1e1"] {
            assert_eq!(bad.parse::<Margin>(), Err(InvalidStack::Margin), "{bad:?}");
        }
        for bad in ["", "K", "-1", "1.5K", "64KB", "2G", "18446744073709551615G", "é"] {
            assert_eq!(bad.parse::<StackSize>(), Err(InvalidStack::Size), "{bad:?}");
        }
        for bad in ["", "25%", "80%-25%", "25%-", "-25%-80%", "25%-80%-90%"] {
            assert_eq!(bad.parse::<StackZones>(), Err(InvalidStack::Zones), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,12}") {
            let _ = text.parse::<Percent>();
            let _ = text.parse::<Margin>();
            let _ = text.parse::<StackSize>();
            let _ = text.parse::<StackZones>();
        }
    }
}
