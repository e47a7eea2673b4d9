// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a job.
use serde::Serialize;
use std::fmt;

/// How a job ended. All but `Exited` with status 0 is a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// By itself, with this status.
    Exited {
        /// 0 to 255.
        status: u8,
    },
    /// By a signal.
    Killed {
        /// Its number in the guest.
        signal: i32,
        /// The guest's kernel ran out of memory and killed it, or reported the lack meanwhile.
        out_of_memory: bool,
    },
    /// It exceeded its limit and was ended; the guest was well.
    TimedOut,
    /// It could not be started, for the guest's reason.
    NotStarted {
        /// Such as "/bin/x: No such file or directory".
        why: String,
        /// The number of the system's error in the guest, if it was one.
        errno: Option<i32>,
    },
    /// The guest's kernel panicked.
    Panicked {
        /// The console's line with the panic.
        why: String,
    },
    /// The guest did not answer any more, and was ended.
    Hung,
    /// The guest powered off or rebooted while the job ran.
    Stopped,
    /// QEMU ended, or another process ended it.
    QemuDied {
        /// Its exit status or signal, and its last messages.
        why: String,
    },
    /// The guest sent invalid data, and was ended.
    Garbled {
        /// The kind of the invalid data.
        why: String,
    },
    /// No guest came up in which it could be run.
    NotBooted {
        /// The details.
        why: String,
    },
}

impl Outcome {
    /// Success for a test or a script: it ended by itself, with status 0.
    pub fn is_success(&self) -> bool {
        *self == Self::Exited { status: 0 }
    }

    /// It failed in a way for which the guest's console may have more details than the job itself.
    pub fn concerns_the_guest(&self) -> bool {
        match self {
            Self::Exited { .. } | Self::NotStarted { .. } | Self::TimedOut => false,
            Self::Killed { out_of_memory, .. } => *out_of_memory,
            _ => true,
        }
    }
}

/// As the end of a sentence: "the command …".
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { status } => write!(f, "ended with status {status}"),
            Self::Killed { signal, out_of_memory } => {
                write!(f, "was killed by {}", signal_name(*signal))?;
                match out_of_memory {
                    true => write!(f, ": the guest had run out of memory"),
                    false => Ok(()),
                }
            }
            Self::TimedOut => write!(f, "ran past its limit and was ended"),
            Self::NotStarted { why, .. } => write!(f, "could not be started: {why}"),
            Self::Panicked { why } => write!(f, "ended with its guest: {why}"),
            Self::Hung => write!(f, "ran past its limit, and the guest did not answer any more"),
            Self::Stopped => write!(f, "ended with its guest, which powered off or rebooted"),
            Self::QemuDied { why } => write!(f, "ended with its guest: {why}"),
            Self::Garbled { why } => {
                write!(f, "was ended with its guest, which sent what makes no sense: {why}")
            }
            Self::NotBooted { why } => write!(f, "was not run, for no guest came up: {why}"),
        }
    }
}

/// SIGKILL, or the number of one that has no name, such as a real-time signal.
pub(crate) fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string())
}

/// A job that has ended.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// The job's name.
    pub job: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it ran.
    pub seconds: f64,
    /// Which boot of the session it ran in, from 1.
    pub boot: u32,
    /// Traces that could not be cleared away, so that the next job gets a new boot.
    pub left: Vec<String>,
    /// Files of its `$OUT` that could not be brought back, and why.
    pub lost: Vec<String>,
    /// If it failed: the last lines of the guest's console.
    pub console: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_outcome_beside_the_rest() {
        let ended = Ended {
            job: "a".into(),
            outcome: Outcome::Killed { signal: 9, out_of_memory: true },
            seconds: 1.5,
            boot: 1,
            left: Vec::new(),
            lost: Vec::new(),
            console: vec!["oom".into()],
        };
        assert_eq!(
            serde_json::to_string(&ended).unwrap(),
            r#"{"job":"a","outcome":"killed","signal":9,"out_of_memory":true,"seconds":1.5,"boot":1,"left":[],"lost":[],"console":["oom"]}"#
        );
        let panicked = Outcome::Panicked { why: "so".into() };
        assert_eq!(
            serde_json::to_string(&panicked).unwrap(),
            r#"{"outcome":"panicked","why":"so"}"#
        );
        let json = serde_json::to_string(&Outcome::TimedOut).unwrap();
        assert_eq!(json, r#"{"outcome":"timed-out"}"#);
    }

    #[test]
    fn a_signal_has_its_name() {
        let killed = |signal| Outcome::Killed { signal, out_of_memory: false }.to_string();
        assert_eq!(killed(11), "was killed by SIGSEGV");
        assert_eq!(killed(64), "was killed by signal 64");
    }

    #[test]
    fn only_status_0_is_success() {
        assert!(Outcome::Exited { status: 0 }.is_success());
        assert!(!Outcome::Exited { status: 1 }.is_success());
        assert!(!Outcome::Hung.is_success());
    }
}
