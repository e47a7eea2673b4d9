// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes as people write them.
use std::str::FromStr;

/// A number of bytes: `4096`, `64K`, `8M`, `3G`, also with `iB` behind, in powers of 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str =
            "write a number of bytes, or of KiB, MiB, GiB or TiB as in 64K, 8M, 3G, 1T";
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.strip_suffix("iB").unwrap_or(unit);
        let shift = match unit {
            "" if !text.ends_with("iB") => 0,
            "K" | "k" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(FORM),
        };
        let number: u64 = number.parse().map_err(|_| FORM)?;
        number.checked_mul(1 << shift).map(Self).ok_or(FORM)
    }
}

/// The size of a stack, or what TEK makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// So many bytes.
    Bytes(u64),
    /// What `tek run --stack auto` gives a thread of modest use.
    Auto,
}

impl FromStr for Stack {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse()? {
            Size(0) => Err("a stack has at least one byte"),
            Size(bytes) => Ok(Self::Bytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_may_have_a_unit() {
        let taken =
            [("4096", 4096), ("64K", 65_536), ("8MiB", 8 << 20), ("3G", 3 << 30), ("1T", 1 << 40)];
        for (text, bytes) in taken {
            assert_eq!(text.parse(), Ok(Size(bytes)));
        }
        for bad in ["", "K", "-1", "+1", "1.5G", "1iB", "64 K", "64KB", "99999999T"] {
            assert!(bad.parse::<Size>().is_err(), "{bad:?} was taken");
        }
        assert_eq!("auto".parse(), Ok(Stack::Auto));
        assert_eq!("8M".parse(), Ok(Stack::Bytes(8 << 20)));
        assert!("0".parse::<Stack>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
            let _ = text.parse::<Size>();
            let _ = text.parse::<Stack>();
        }
    }
}
