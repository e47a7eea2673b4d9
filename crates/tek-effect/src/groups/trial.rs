// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the kernel allows real-time threads in a group, by a child process that tries it.
//!
//! With RT_GROUP_SCHED the kernel refuses them below the topmost group of version 2. No file shows
//! it there.
use crate::sys::{self, Outcome};
use std::io;
use std::path::PathBuf;

/// A child joins groups by these files, one after the other, and asks for a real-time policy.
pub(super) fn outcome(joins: &[PathBuf]) -> io::Result<Outcome> {
    sys::try_real_time(joins)
}

/// Whether it is the group that refuses: outside of the groups a child gets the policy. What could
/// not be tried is no reason.
pub(super) fn is_refused_by_groups(
    joins: &[PathBuf],
    outcome: impl Fn(&[PathBuf]) -> io::Result<Outcome>,
) -> bool {
    matches!(outcome(joins), Ok(Outcome::Refused)) && matches!(outcome(&[]), Ok(Outcome::Allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::common::ground::Ground;
    use crate::hierarchy::REAL_TIME;
    use crate::{Hierarchy, Version};

    #[test]
    fn groups_refuse_only_what_is_allowed_outside() {
        let joins = [PathBuf::from("procs"), PathBuf::from("threads")];
        let verdict = |within: Option<Outcome>, outside: Option<Outcome>| {
            let fake = |files: &[PathBuf]| {
                assert!(files.is_empty() || files == joins);
                let reported = if files.is_empty() { outside } else { within };
                reported.ok_or(io::Error::from_raw_os_error(libc::ENOENT))
            };
            is_refused_by_groups(&joins, fake)
        };
        let (allowed, refused) = (Some(Outcome::Allowed), Some(Outcome::Refused));
        assert!(verdict(refused, allowed));
        assert!(!verdict(allowed, allowed));
        assert!(!verdict(refused, refused), "tekd may not make threads real-time at all");
        assert!(!verdict(None, allowed) && !verdict(refused, None));
    }

    #[test]
    fn a_group_without_real_time_runtime_refuses_and_the_topmost_does_not() {
        let within = Hierarchy::with("cpu").unwrap();
        let within = within.filter(|within| within.version() == Version::V1);
        let mount = within.map(|within| within.mount_point().to_owned());
        let Some(mount) = mount.filter(|mount| mount.join(REAL_TIME).exists()) else {
            println!("skipped: needs cgroup version 1 with RT_GROUP_SCHED");
            return;
        };
        if outcome(&[]).unwrap() == Outcome::Refused {
            println!("skipped: needs the right to real-time policies");
            return;
        }
        let ground = Ground::below(&mount);
        assert!(is_refused_by_groups(&[ground.0.join("tasks")], outcome));
        assert!(!is_refused_by_groups(&[mount.join("tasks")], outcome));
        assert!(!is_refused_by_groups(&[ground.0.join("no-such-file")], outcome));
    }
}
