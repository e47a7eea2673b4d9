// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of tek that are programs of their own, beside tek: a device ships without them.
use crate::system::library::BUILD_AGAIN;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, iter};
use tek_advice::{quoted, Package};

/// Such a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Companion {
    /// Its name after `tek`.
    pub command: &'static str,
    /// The words before its own, as its usage shows them.
    pub words: &'static str,
    /// The program.
    pub program: &'static str,
    /// The package that has it.
    pub package: Package,
    /// Its line in the list of commands.
    pub about: &'static str,
    /// The beginning of its own help, if that is longer.
    pub long_about: Option<&'static str>,
}

/// `tek bench`.
pub const BENCH: Companion = Companion {
    command: "bench",
    words: "tek bench",
    program: "tek-bench",
    package: Package { names: &[("tek-bench", 0)] },
    about: "Measure, as in the papers",
    long_about: None,
};

/// `tek lab`.
pub const LAB: Companion = Companion {
    command: "lab",
    words: "tek lab",
    program: "tek-lab",
    package: Package { names: &[("tek-lab", 0)] },
    about: "Boot real kernels in QEMU and run commands in them",
    long_about: Some(
        "Boot real kernels in QEMU and run commands in them\n\n\
         Takes kernels from a Debian archive, boots them under emulation with the machine that a \
         kind describes, runs commands or tests in it and brings back what they said. Nothing that \
         happens inside can harm this machine, and nothing of it stays.",
    ),
};

/// All of them, in the order of tek's help.
pub const ALL: [&Companion; 2] = [&BENCH, &LAB];

impl Companion {
    /// The one that tek's words are for, and its own words: after `bench`, or `help bench`.
    pub fn of(words: &[OsString]) -> Option<(&'static Self, Vec<OsString>)> {
        let (first, rest) = words.split_first()?;
        if first == "help" {
            let (companion, rest) = Self::of(rest)?;
            return Some((companion, iter::once(first.clone()).chain(rest).collect()));
        }
        let companion = ALL.into_iter().find(|companion| first == companion.command)?;
        Some((companion, rest.to_vec()))
    }

    /// Its program: beside that of this process, else in PATH.
    pub fn find(&self) -> anyhow::Result<PathBuf> {
        let own = env::current_exe().unwrap_or_default();
        let directory = own.parent().unwrap_or(Path::new("/"));
        let place = directory.join(self.program);
        if place.is_file() {
            return Ok(place);
        }
        tek_advice::program(self.program, &[]).ok_or_else(|| {
            anyhow::anyhow!(
                "`{}` needs the program {}, which is neither in {} nor in PATH: {}",
                self.words,
                self.program,
                directory.display(),
                self.cure(directory)
            )
        })
    }

    /// How to get the program, for a tek in this directory.
    fn cure(&self, directory: &Path) -> String {
        let source = directory.ancestors().find(|top| top.join("crates/tek-command").is_dir());
        if let Some(top) = source {
            let make = format!("make -C {} build", quoted(&top.display().to_string()));
            let bin = top.join("build/bin");
            let tek = quoted(&bin.join("tek").display().to_string());
            return match directory == bin {
                true => make,
                false => format!("{make} && {tek} {} --help", self.command),
            };
        }
        match self.package.name() {
            Some(_) => tek_advice::install(&[self.package], None),
            None => BUILD_AGAIN.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn of(words: &[&str]) -> Option<(&'static str, String)> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        let (companion, words) = Companion::of(&words)?;
        Some((companion.program, words.join(" ".as_ref()).into_string().unwrap()))
    }

    #[test]
    fn all_words_after_the_command_are_the_programs() {
        assert_eq!(of(&["bench", "--", "-h"]), Some(("tek-bench", "-- -h".into())));
        assert_eq!(of(&["help", "lab", "run"]), Some(("tek-lab", "help run".into())));
        for words in [&[][..], &["run", "bench"], &["help", "run"], &["help"], &["--help", "lab"]] {
            assert_eq!(of(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_source_tree_has_a_command_that_builds_the_program() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("crates/tek-command")).unwrap();
        let make = format!("make -C {} build", top.path().display());
        assert_eq!(LAB.cure(&top.path().join("build/bin")), make);
        let tek = top.path().join("build/bin/tek");
        let elsewhere = LAB.cure(&top.path().join("build/demo/bin"));
        assert_eq!(elsewhere, format!("{make} && {} lab --help", tek.display()));
    }

    #[test]
    fn elsewhere_the_package_is_named_or_how_to_build_it() {
        let cure = BENCH.cure(Path::new("/opt/tek/bin"));
        assert!(cure.contains("tek-bench") || cure.contains("make build"), "{cure}");
    }
}
