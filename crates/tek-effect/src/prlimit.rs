// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries the limits of a process: prlimit(2), or /proc where that is refused.
use crate::limits::{Limits, Resource};
use crate::{sys, Error};
use std::{fs, io};
use tek_procfs::path;

impl Limits {
    /// The limits of a process.
    pub fn of(pid: i32, resource: Resource) -> Result<Self, Error> {
        let limits = match sys::limits(pid, resource.number()) {
            // prlimit(2) reports limits of other users' processes with CAP_SYS_RESOURCE only,
            // /proc always.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Self::in_proc(pid, resource),
            limits => limits,
        };
        limits.map_err(|source| Error::thread(pid, format!("ask for {resource:?} of"), source))
    }

    fn in_proc(pid: i32, resource: Resource) -> io::Result<Self> {
        let text = fs::read_to_string(path(pid, "limits")?)?;
        Self::parse(&text, resource.title()).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn parse(text: &str, title: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix(title))?;
        let mut values = line.split_ascii_whitespace();
        let mut value = || match values.next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        };
        Some(Self { soft: value()?, hard: value()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_in_proc_are_those_of_the_kernel() {
        let own = std::process::id() as i32;
        for resource in [
            Resource::Rtprio,
            Resource::Rttime,
            Resource::Nice,
            Resource::Memlock,
            Resource::Nofile,
        ] {
            let reported = Limits::in_proc(own, resource).unwrap();
            assert_eq!(reported, sys::limits(own, resource.number()).unwrap(), "{resource:?}");
        }
        assert!(Limits::parse("Max open files            1024\n", "Max open files").is_none());
    }
}
