// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole numbers of tekd.toml, within their bounds.
use serde::de::{Deserializer, Error as _, Visitor};
use std::fmt;

/// An integer in a range.
pub(crate) fn number<'de, D: Deserializer<'de>>(
    from: D,
    least: u32,
    most: u32,
    what: &str,
) -> Result<Option<u32>, D::Error> {
    let number = from.deserialize_i64(WholeNumber { least, most })?;
    match u32::try_from(number) {
        Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
        _ => Err(D::Error::custom(format!("{number} {what}: {least} to {most}"))),
    }
}

struct WholeNumber {
    least: u32,
    most: u32,
}

impl Visitor<'_> for WholeNumber {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, {} to {}", self.least, self.most)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }
}
