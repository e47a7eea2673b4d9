// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size of a stack as people write it.
use std::str::FromStr;
use tek_policy::Size;

/// The size of a stack, or what TEK makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// So many bytes.
    Bytes(u64),
    /// The stack that `tek run --stack auto` gives.
    Auto,
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(Size(0)) => Err("a stack has at least one byte".to_owned()),
            Ok(Size(bytes)) => Ok(Self::Bytes(bytes)),
            Err(error) => Err(format!("{error}, or auto")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_has_a_size_or_what_fits() {
        assert_eq!("auto".parse(), Ok(Stack::Auto));
        assert_eq!("8M".parse(), Ok(Stack::Bytes(8 << 20)));
        assert!("0".parse::<Stack>().is_err() && "8MB".parse::<Stack>().is_err());
    }
}
