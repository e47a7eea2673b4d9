// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of the matrix: how a critical thread and those that it waits for are scheduled.

use crate::daemon::Backend;

/// How the thread and those that it waits for are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Column {
    /// Without hogs: the limit
    Alone,
    /// The same once more: how much two equal measurements differ
    AloneAgain,
    /// With hogs, as the kernel schedules by itself
    Conventional,
    /// The thread at nice -20
    Nice,
    /// The thread at SCHED_RR
    Chrt,
    /// The same by rtkit, a service on the system bus: needs a change of the program
    Rtkit,
    /// The program in a control group of the highest weight, the hogs in one of the lowest
    Weights,
    /// The thread at SCHED_RR, mutexes with PTHREAD_PRIO_INHERIT: needs a change of the program
    PiMutex,
    /// Unmodified, under `tek run --critical touch`
    Tek,
    /// The same with --no-inherit
    TekNoInherit,
    /// The same for a user without rights, by a grant of tekd, which follows waits in all programs
    Tekd,
    /// The same with tekd's backend fair: a control group of great weight, no real-time policy
    TekdFair,
}

impl Column {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Column::Alone => "alone",
            Column::AloneAgain => "alone-again",
            Column::Conventional => "conventional",
            Column::Nice => "nice",
            Column::Chrt => "chrt",
            Column::Rtkit => "rtkit",
            Column::Weights => "weights",
            Column::PiMutex => "pi-mutex",
            Column::Tek => "tek",
            Column::TekNoInherit => "tek-no-inherit",
            Column::Tekd => "tekd",
            Column::TekdFair => "tekd-fair",
        }
    }

    /// Whether hogs run.
    pub fn has_hogs(self) -> bool {
        !matches!(self, Column::Alone | Column::AloneAgain)
    }

    /// The backend of tekd in it.
    pub fn backend(self) -> Option<Backend> {
        match self {
            Column::Tekd => Some(Backend::Rt),
            Column::TekdFair => Some(Backend::Fair),
            _ => None,
        }
    }

    /// Whether the kernel has to schedule the thread like this at its end.
    pub fn is_meant(self, policy: i32, nice: i32) -> bool {
        match self {
            Column::Nice => policy == libc::SCHED_OTHER && nice == -20,
            Column::Chrt
            | Column::Rtkit
            | Column::PiMutex
            | Column::Tek
            | Column::TekNoInherit
            | Column::Tekd => policy == libc::SCHED_RR,
            Column::Alone
            | Column::AloneAgain
            | Column::Conventional
            | Column::Weights
            | Column::TekdFair => policy == libc::SCHED_OTHER,
        }
    }

    /// Its options of the program.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Column::Nice => &["--nice"],
            Column::Chrt => &["--real-time"],
            Column::Rtkit => &["--rtkit"],
            Column::PiMutex => &["--real-time", "--inherit"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn a_thread_that_stayed_ordinary_was_not_under_tek() {
        assert!(Column::Conventional.is_meant(libc::SCHED_OTHER, 0));
        for column in [Column::Tek, Column::Tekd, Column::Chrt, Column::Rtkit, Column::Nice] {
            assert!(!column.is_meant(libc::SCHED_OTHER, 0), "{}", column.name());
        }
    }

    #[test]
    fn the_command_line_knows_each_column_by_its_name() {
        for column in Column::value_variants() {
            assert_eq!(column.to_possible_value().unwrap().get_name(), column.name());
        }
    }
}
