// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compared variants of running the appliance.

use crate::appliance::{Kind, Measured, ReadyThread, Scheduling};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use tek_command::system::library::BUILD_AGAIN;
use tek_command::system::sched;

/// One way of running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Variant {
    /// Without CPU-bound threads: the limit
    Alone,
    /// The same once more: how much two equal measurements differ
    #[value(name = "alone-2")]
    AloneAgain,
    /// With CPU-bound threads, as the kernel schedules by itself
    Conventional,
    /// Critical threads at nice -20, as `renice` does
    #[value(name = "nice-20")]
    Nice,
    /// Critical threads at SCHED_RR, as `chrt -r` does
    ChrtRr,
    /// Every CPU-bound thread at SCHED_IDLE
    HogsIdle,
    /// Unmodified, under `tek run --critical NAME`
    TekName,
    /// The program that calls the TEK API
    TekApi,
}

/// The names of the threads on the path of an event.
pub const CRITICAL: [&str; 3] = ["touch", "ui", "render"];

/// The switches of this thread stand for those of all noncritical threads.
pub const ORDINARY: &str = "door";

/// The programs that variants start.
pub struct Programs {
    pub tek: PathBuf,
    pub appliance: PathBuf,
    /// Absent where TEK was built without it.
    pub appliance_tek: Option<PathBuf>,
}

impl Variant {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Alone => "alone",
            Variant::AloneAgain => "alone-2",
            Variant::Conventional => "conventional",
            Variant::Nice => "nice-20",
            Variant::ChrtRr => "chrt-rr",
            Variant::HogsIdle => "hogs-idle",
            Variant::TekName => "tek-name",
            Variant::TekApi => "tek-api",
        }
    }

    /// Whether TEK is used.
    pub fn is_tek(self) -> bool {
        matches!(self, Variant::TekName | Variant::TekApi)
    }

    /// Whether there are CPU-bound threads.
    pub fn has_load(self) -> bool {
        !matches!(self, Variant::Alone | Variant::AloneAgain)
    }

    /// The command that starts the appliance this way; its options are to be added.
    pub fn command(self, programs: &Programs) -> Result<Command, String> {
        match self {
            Variant::TekName => {
                let mut command = Command::new(&programs.tek);
                command.arg("run");
                for name in CRITICAL {
                    command.args(["--critical", name]);
                }
                command.arg("--").arg(&programs.appliance);
                Ok(command)
            }
            Variant::TekApi => match &programs.appliance_tek {
                Some(program) => Ok(Command::new(program)),
                None => Err(format!("the program appliance-tek is missing: {BUILD_AGAIN}")),
            },
            _ => Ok(Command::new(&programs.appliance)),
        }
    }

    /// Applies to the waiting threads the change that this variant makes from outside.
    pub fn apply(self, threads: &[ReadyThread]) -> io::Result<()> {
        let (kind, act): (Kind, fn(i32) -> io::Result<()>) = match self {
            Variant::Nice => (Kind::Event, |tid| sched::set_nice(tid, -20)),
            Variant::ChrtRr => (Kind::Event, sched::set_round_robin),
            Variant::HogsIdle => (Kind::Hog, sched::set_idle),
            _ => return Ok(()),
        };
        threads.iter().filter(|thread| thread.kind == kind).try_for_each(|thread| act(thread.tid))
    }

    /// Checks that the kernel scheduled the threads as this variant requires: a variant that
    /// silently was another one would be a lie.
    pub fn verify(self, measured: &Measured) -> Result<(), String> {
        for thread in &measured.threads {
            if !self.is_as_meant(thread.kind, &thread.during) {
                return Err(format!(
                    "thread {} was not scheduled as meant (policy {}, real-time priority {}, nice \
                     {})",
                    thread.name, thread.during.policy, thread.during.priority, thread.during.nice
                ));
            }
        }
        Ok(())
    }

    fn is_as_meant(self, kind: Kind, now: &Scheduling) -> bool {
        match (kind, self) {
            (Kind::Event, Variant::Nice) => now.policy == libc::SCHED_OTHER && now.nice == -20,
            (Kind::Event, Variant::ChrtRr) => {
                now.policy == libc::SCHED_RR && now.priority == sched::RR_PRIORITY
            }
            (Kind::Event, Variant::TekName | Variant::TekApi) => now.policy == libc::SCHED_RR,
            (Kind::Hog, Variant::HogsIdle) => now.policy == libc::SCHED_IDLE,
            _ => now.policy == libc::SCHED_OTHER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn scheduling(policy: i32, priority: i32, nice: i32) -> Scheduling {
        Scheduling { policy, priority, nice, flags: 0 }
    }

    #[test]
    fn the_command_line_knows_each_variant_by_its_name() {
        for variant in Variant::value_variants() {
            let value = variant.to_possible_value().unwrap();
            assert_eq!(value.get_name(), variant.name());
        }
    }

    #[test]
    fn a_tek_variant_whose_threads_stayed_fair_is_not_one() {
        let fair = scheduling(libc::SCHED_OTHER, 0, 0);
        assert!(!Variant::TekName.is_as_meant(Kind::Event, &fair));
        assert!(Variant::TekName.is_as_meant(Kind::Hog, &fair));
        assert!(Variant::Conventional.is_as_meant(Kind::Event, &fair));
    }

    #[test]
    fn a_conventional_run_with_a_real_time_thread_is_not_one() {
        let round_robin = scheduling(libc::SCHED_RR, 29, 0);
        assert!(!Variant::Conventional.is_as_meant(Kind::Event, &round_robin));
        assert!(!Variant::ChrtRr.is_as_meant(Kind::Sensor, &round_robin));
    }

    #[test]
    fn nice_minus_20_is_checked_by_value() {
        let is_nice =
            |nice| Variant::Nice.is_as_meant(Kind::Event, &scheduling(libc::SCHED_OTHER, 0, nice));
        assert!(is_nice(-20) && !is_nice(0));
    }
}
