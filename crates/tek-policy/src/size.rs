// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes as people write them.
use std::str::FromStr;

/// A number of bytes: `4096`, `64K`, `8MiB`, `3g`, in powers of 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// It is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a number of bytes, or of KiB, MiB, GiB or TiB as in 64K, 8M, 3G, 1T")]
pub struct InvalidSize;

impl FromStr for Size {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit {
            "" => 0,
            "K" | "k" | "KiB" => 10,
            "M" | "m" | "MiB" => 20,
            "G" | "g" | "GiB" => 30,
            "T" | "t" | "TiB" => 40,
            _ => return Err(InvalidSize),
        };
        let number: u64 = number.parse().map_err(|_| InvalidSize)?;
        number.checked_mul(1 << shift).map(Self).ok_or(InvalidSize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_may_have_a_unit() {
        let taken = [
            ("4096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("8MiB", 8 << 20),
            ("8m", 8 << 20),
            ("3G", 3 << 30),
            ("1T", 1 << 40),
        ];
        for (text, bytes) in taken {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for bad in ["", "K", "-1", "+1", "1.5G", "1iB", "64 K", "64KB", "64kiB", "99999999T"] {
            assert!(bad.parse::<Size>().is_err(), "{bad:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<Size>();
        }
    }
}
