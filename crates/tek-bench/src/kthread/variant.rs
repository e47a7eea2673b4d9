// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compared variants: the program that decides the priority of a kernel thread.

use crate::daemon::{Backend, Kthreads, Settings};

/// The priority of the measured task.
pub const CRITICAL: i32 = 60;
/// The priority of the load.
pub const LOAD: i32 = 30;
/// The priority of kernel threads under tools that do not know the waiters: above all load, below
/// the task.
pub const STATIC: i32 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Variant {
    /// Without what disturbs: the limit
    Alone,
    /// The same once more: how much two equal measurements differ
    #[value(name = "alone-2")]
    AloneAgain,
    /// Disturbed, the kernel alone
    AsItIs,
    /// All kworkers, kswapd and ksoftirqd real-time, as tuned and rtirq do
    Static,
    /// stalld, which helps threads that had no CPU for seconds
    Stalld,
    /// tekd, by equation (1)
    Plain,
    /// tekd as it is
    Tek,
}

impl Variant {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Alone => "alone",
            Variant::AloneAgain => "alone-2",
            Variant::AsItIs => "as it is",
            Variant::Static => "static",
            Variant::Stalld => "stalld",
            Variant::Plain => "plain PIP",
            Variant::Tek => "TEK",
        }
    }

    /// Whether the load is present.
    pub fn is_disturbed(self) -> bool {
        !matches!(self, Variant::Alone | Variant::AloneAgain)
    }

    /// The configuration of tekd, if there is one.
    pub fn settings(self) -> Option<Settings> {
        let method = match self {
            Variant::Plain => Kthreads::Plain,
            Variant::Tek => Kthreads::Weighted,
            _ => return None,
        };
        Some(Settings { kthreads: Some(method), ..Settings::of(Backend::Rt) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn only_what_tekd_decides_has_a_daemon_and_each_by_another_method() {
        let all = Variant::value_variants().iter();
        let with: Vec<_> = all.filter(|it| it.settings().is_some()).collect();
        assert_eq!(with, [&Variant::Plain, &Variant::Tek]);
        let text = |variant: Variant| variant.settings().unwrap().text();
        assert!(text(Variant::Plain).contains("[kthreads]\nmethod = \"plain\"\n"));
        assert!(
            text(Variant::Tek).contains("[kthreads]\n") && !text(Variant::Tek).contains("plain")
        );
        assert!(text(Variant::Tek).contains("backend = \"rt\"\n"));
    }

    #[test]
    fn the_limit_is_not_disturbed() {
        assert!(!Variant::Alone.is_disturbed() && !Variant::AloneAgain.is_disturbed());
        assert!(Variant::AsItIs.is_disturbed());
    }
}
