// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocators that a program can have: values of `--alloc`.
use crate::suggested::Suggested;
use clap::builder::PossibleValue;
use std::fmt;
use std::str::FromStr;
use tek_abi::options::{ALLOC_KINDS, POOL_LEAST, POOL_MOST};
use tek_advice::Package;

/// Parses the option, and has the values for shells' completion.
pub const ALLOCS: Suggested<Alloc> = Suggested {
    parse: |text| text.parse(),
    names: || {
        let installed = INSTALLED.iter().map(|installed| installed.name);
        let own = ALLOC_KINDS.iter().map(|kind| match kind.name {
            "pool" => "pool=64M",
            name => name,
        });
        ["glibc"].into_iter().chain(installed).chain(own).map(PossibleValue::from).collect()
    },
};

/// An allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alloc {
    /// The C library's.
    Glibc,
    /// An installed one.
    Installed(&'static Installed),
    /// libtek-alloc.so, growing.
    Tlsf,
    /// libtek-alloc.so, with this many bytes and no more.
    Pool(u64),
}

/// An allocator from outside TEK.
#[derive(Debug, PartialEq, Eq)]
pub struct Installed {
    /// As `--alloc` has it.
    pub name: &'static str,
    /// Its file names, the usual one first.
    pub files: &'static [&'static str],
    /// Debian's package with it.
    pub package: Package,
}

/// Those that `--alloc` knows.
pub static INSTALLED: [Installed; 3] = [
    Installed {
        name: "mimalloc",
        files: &["libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so"],
        package: Package { names: &[("libmimalloc3", 13), ("libmimalloc2.0", 0)] },
    },
    Installed {
        name: "jemalloc",
        files: &["libjemalloc.so.2", "libjemalloc.so"],
        package: Package { names: &[("libjemalloc2", 0)] },
    },
    Installed {
        name: "tcmalloc",
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"],
        package: Package { names: &[("libtcmalloc-minimal4t64", 13), ("libtcmalloc-minimal4", 0)] },
    },
];

/// The sizes of a pool.
const SIZES: std::ops::RangeInclusive<u64> = POOL_LEAST as u64..=POOL_MOST;

impl FromStr for Alloc {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(size) = text.strip_prefix("pool=") {
            let form = || "write pool=SIZE, from pool=64K to pool=512G, as in pool=64M".to_owned();
            return pool(size).map(Self::Pool).ok_or_else(form);
        }
        match text {
            "glibc" => Ok(Self::Glibc),
            "tlsf" => Ok(Self::Tlsf),
            _ => INSTALLED.iter().find(|known| known.name == text).map(Self::Installed).ok_or_else(
                || "write glibc, mimalloc, jemalloc, tcmalloc, tlsf or pool=SIZE".to_owned(),
            ),
        }
    }
}

/// A number of bytes, or of K, M or G.
fn pool(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let scale = match text.get(digits.len()..)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(scale).filter(|bytes| SIZES.contains(bytes))
}

impl fmt::Display for Alloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glibc => f.write_str("glibc"),
            Self::Installed(installed) => f.write_str(installed.name),
            Self::Tlsf => f.write_str("tlsf"),
            Self::Pool(bytes) => {
                let units = [("G", 30), ("M", 20), ("K", 10), ("", 0)];
                let (unit, shift) = units
                    .into_iter()
                    .find(|(_, shift)| bytes.is_multiple_of(1 << shift))
                    .unwrap_or_default();
                write!(f, "pool={}{unit}", bytes >> shift)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    #[test]
    fn an_allocator_is_written_as_it_is_read() {
        for text in [
            "glibc",
            "mimalloc",
            "jemalloc",
            "tcmalloc",
            "tlsf",
            "pool=65537",
            "pool=64K",
            "pool=1M",
            "pool=2G",
        ] {
            assert_eq!(text.parse::<Alloc>().unwrap().to_string(), text);
        }
        assert_eq!("pool=64M".parse(), Ok(Alloc::Pool(64 << 20)));
        assert_eq!("pool=512G".parse(), Ok(Alloc::Pool(512 << 30)));
    }

    #[test]
    fn each_kind_of_the_library_is_known() {
        for kind in ALLOC_KINDS {
            let names: Vec<_> = (ALLOCS.names)();
            let name = names.iter().find(|name| name.get_name().starts_with(kind.name)).unwrap();
            assert!(matches!(name.get_name().parse(), Ok(Alloc::Tlsf | Alloc::Pool(_))));
        }
        assert_eq!((ALLOCS.names)().len(), 1 + INSTALLED.len() + ALLOC_KINDS.len());
    }

    #[test]
    fn the_variable_is_read_as_in_the_library() {
        let vectors = reader::read("options.txt").into_iter();
        for vector in vectors.filter(|vector| vector.word(0) == "TEK_ALLOC") {
            let expected = match vector.word(1) {
                "refused" => None,
                _ if vector.word(3) == "0" => Some(Alloc::Tlsf),
                _ => Some(Alloc::Pool(vector.word(3).parse().unwrap())),
            };
            assert_eq!(vector.word(2).parse().ok(), expected, "{}", vector.place);
        }
    }
}
