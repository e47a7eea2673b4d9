// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups that tekd makes, by the control groups of threads: `TOP/fast` and
//! `TOP/lazy/NAME`, in any hierarchy and with any TOP.
use crate::process::Process;
use crate::Stat;
use tek_abi::{GROUP_BACKGROUND, GROUP_NORMAL, GROUP_SERVICE, GROUP_URGENT};

const NAMES: [(&str, u8); 4] = [
    ("normal", GROUP_NORMAL),
    ("urgent", GROUP_URGENT),
    ("service", GROUP_SERVICE),
    ("background", GROUP_BACKGROUND),
];

/// A thread's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// In this group of the Lazy Region.
    Lazy(u8),
    /// In the Fast Region.
    Fast,
}

/// The groups of the threads of one process. It reads only one file where tekd places no thread.
pub(crate) struct Groups<'a> {
    process: &'a Process,
    are_placed: Option<bool>,
}

impl<'a> Groups<'a> {
    pub(crate) fn of(process: &'a Process) -> Self {
        Self { process, are_placed: None }
    }

    /// The group of the next thread, the first of which is the process's first.
    pub(crate) fn next(&mut self, stat: &Stat) -> Option<u8> {
        if stat.kernel || self.are_placed == Some(false) {
            return None;
        }
        let seat = seat(&self.process.cgroups(stat.tid)?);
        // A real-time thread can be elsewhere as long as it is one, apart from the process's rest.
        self.are_placed.get_or_insert(seat.is_some() || stat.rt_priority != 0);
        match seat {
            Some(Seat::Lazy(group)) => Some(group),
            _ => None,
        }
    }
}

/// Reads /proc/TID/cgroup: one of its lines, ID:CONTROLLERS:PATH, can have the place.
fn seat(text: &str) -> Option<Seat> {
    text.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let (above, name) = path.rsplit_once('/')?;
        let (top, region) = above.rsplit_once('/')?;
        let group = NAMES.iter().find(|(known, _)| *known == name);
        match (group, name) {
            (Some(&(_, group)), _) if region == "lazy" && !top.is_empty() => {
                Some(Seat::Lazy(group))
            }
            (None, "fast") if !region.is_empty() => Some(Seat::Fast),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_known_by_where_it_lies_in_either_version() {
        let v1 = "8:memory:/\n4:cpu,cpuacct:/tek/lazy/background\n0::/init.scope";
        assert_eq!(seat(v1), Some(Seat::Lazy(GROUP_BACKGROUND)));
        assert_eq!(seat("0::/system.slice/tekd.service/tek/lazy/urgent"), Some(Seat::Lazy(1)));
        assert_eq!(seat("4:cpu:/tek/fast"), Some(Seat::Fast));
    }

    #[test]
    fn what_is_not_tekds_is_no_group() {
        for text in [
            "",
            "0::/",
            "4:cpu:/lazy/normal",
            "4:cpu:/tek/lazy",
            "4:cpu:/a/normal",
            "4:cpu:/fast",
            "x",
        ] {
            assert_eq!(seat(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_can_be_asked() {
        let process = Process::open(std::process::id()).unwrap();
        let mut groups = Groups::of(&process);
        for stat in process.threads().unwrap() {
            groups.next(&stat);
        }
        assert!(groups.are_placed.is_some());
    }
}
