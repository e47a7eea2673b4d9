// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compared setups: how the device is run, and the load beside it.

use super::load;
use crate::daemon::{Backend, Settings};

/// How the device is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Without load: the limit.
    Alone,
    /// The same again: shows how much two equal measurements differ.
    AloneAgain,
    /// With load, as the kernel schedules by itself.
    Conventional,
    /// Each process in the group of its kind, none critical: the papers' conventional system.
    Groups,
    /// The appliance's threads are critical: real-time.
    Rt,
    /// They are critical by control groups.
    Fair,
}

impl Variant {
    pub const LOADED: [Variant; 4] =
        [Variant::Conventional, Variant::Groups, Variant::Rt, Variant::Fair];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Alone => "alone",
            Variant::AloneAgain => "alone-2",
            Variant::Conventional => "conventional",
            Variant::Groups => "groups only",
            Variant::Rt => "rt",
            Variant::Fair => "fair",
        }
    }

    /// The backend that makes threads critical.
    pub fn backend(self) -> Option<Backend> {
        match self {
            Variant::Rt => Some(Backend::Rt),
            Variant::Fair => Some(Backend::Fair),
            _ => None,
        }
    }

    /// The configuration of tekd, if there is one.
    pub fn settings(self) -> Option<Settings> {
        let groups_only = Settings { groups: true, ..Settings::of(Backend::Rt) };
        match self {
            Variant::Groups => Some(groups_only),
            _ => self.backend().map(Settings::of),
        }
    }
}

/// The load beside the appliance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pub hogs: usize,
    pub own_sessions: bool,
}

/// The judged loads, and that of a device with a session for each program.
pub const TWENTY: Load = Load { hogs: 20, own_sessions: false };
pub const TWO_HUNDRED: Load = Load { hogs: 200, own_sessions: false };
pub const SESSIONS: Load = Load { hogs: 20, own_sessions: true };

/// Additional threads that are idle most of the time.
pub const IDLE: usize = 2000;

impl Load {
    /// Its name in reports.
    pub fn name(self) -> String {
        let sessions = if self.own_sessions { ", separate sessions" } else { "" };
        format!("{} hogs{sessions}", self.hogs)
    }

    /// The programs to start.
    pub fn plan(self, iterations_per_ms: u64) -> load::Plan {
        let Load { hogs, own_sessions } = self;
        load::Plan { hogs, idle: IDLE, own_sessions, pinned: false, iterations_per_ms }
    }
}

/// A setup of the alternation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    pub load: Option<Load>,
    pub variant: Variant,
}

impl Setup {
    pub const ALONE: Setup = Setup { load: None, variant: Variant::Alone };
    pub const ALONE_AGAIN: Setup = Setup { load: None, variant: Variant::AloneAgain };

    /// With load.
    pub fn under(load: Load, variant: Variant) -> Setup {
        Setup { load: Some(load), variant }
    }

    /// The case of the JSON document.
    pub fn case(self) -> String {
        self.load.map_or_else(|| "no load".to_owned(), Load::name)
    }

    /// Its name where the setup and the load both count.
    pub fn name(self) -> String {
        match self.load {
            None => self.variant.name().to_owned(),
            Some(load) => format!("{}, {}", load.name(), self.variant.name()),
        }
    }

    /// All of these loads.
    pub fn all(loads: &[Load]) -> Vec<Setup> {
        let loaded = loads
            .iter()
            .flat_map(|&load| Variant::LOADED.map(|variant| Setup::under(load, variant)));
        [Setup::ALONE, Setup::ALONE_AGAIN].into_iter().chain(loaded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_measured_twice_whatever_the_loads() {
        let names: Vec<_> = Setup::all(&[TWENTY]).into_iter().map(Setup::name).collect();
        assert_eq!(names[..3], ["alone", "alone-2", "20 hogs, conventional"]);
        assert_eq!(Setup::all(&[TWENTY, TWO_HUNDRED, SESSIONS]).len(), 2 + 3 * 4);
    }

    #[test]
    fn only_what_needs_a_daemon_has_one() {
        assert!(Variant::Conventional.settings().is_none());
        let groups = Variant::Groups.settings().unwrap();
        assert!(groups.groups && Variant::Groups.backend().is_none());
        assert!(!Variant::Rt.settings().unwrap().groups);
    }
}
