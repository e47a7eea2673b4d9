// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running the programs of bench/stack: as they are, and under `tek run --stack`, always with
//! directories of profiles of our own.

use crate::programs;
use anyhow::{bail, ensure, Context};
use serde::de::DeserializeOwned;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::ptr;
use tempfile::TempDir;

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;

/// linux/personality.h: what `setarch i686 --3gb` sets.
const PERSONALITY_32BIT_3GB: libc::c_ulong = 0x0008 | 0x0800_0000;

/// The limits with which a program starts.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The size of a stack with default attributes: RLIMIT_STACK.
    pub stack: u64,
    /// RLIMIT_AS.
    pub address_space: Option<u64>,
    /// A process of 32 bits gets 3 GiB, not 4.
    pub three_gib: bool,
    /// The limit of malloc's arenas; `None`: malloc's default.
    pub arenas: Option<u8>,
}

impl Default for Limits {
    /// The limits of nearly every system.
    fn default() -> Limits {
        Limits { stack: 8 * MIB, address_space: None, three_gib: false, arenas: None }
    }
}

/// Whether `tek run` runs the program, and how.
#[derive(Clone, Copy)]
pub enum Tek<'a> {
    Without,
    /// `tek run` without `--stack`.
    Idle,
    /// `--stack MODE`, with the profiles in a directory.
    Stack(&'a str, &'a Path),
    /// Another tool runs it, as its arguments.
    Other(&'a Path),
}

/// How a program ended that may overflow a stack.
pub enum Ended<T> {
    Well(T),
    /// By SIGSEGV, with what it wrote to standard error.
    Overflowed(String),
}

/// The directory for the profiles of one comparison; removed with it.
pub struct Lab {
    tek: PathBuf,
    directory: TempDir,
}

impl Lab {
    pub fn open() -> anyhow::Result<Lab> {
        Lab::with(programs::tek()?)
    }

    fn with(tek: PathBuf) -> anyhow::Result<Lab> {
        Ok(Lab {
            tek,
            directory: tempfile::tempdir().context("cannot make a directory for profiles")?,
        })
    }

    /// A directory of profiles that is empty until a program learns something there.
    pub fn profiles(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// A copy of the profiles in another directory, so that later learning does not change the
    /// original.
    pub fn copy_of(&self, profiles: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let copy = self.directory.path().join(name);
        if copy.exists() {
            std::fs::remove_dir_all(&copy)?;
        }
        let copy = self.profiles(name)?;
        for entry in std::fs::read_dir(profiles)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), copy.join(entry.file_name()))?;
            }
        }
        Ok(copy)
    }

    /// Whether a profile was learnt there.
    pub fn has_profile(&self, profiles: &Path) -> bool {
        let entries = std::fs::read_dir(profiles).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|path| path.extension() == Some("stack".as_ref()))
    }

    /// The command of a program; its arguments are to be added.
    pub fn command(&self, program: &Path, tek: Tek, limits: Limits) -> Command {
        let mut command = match tek {
            Tek::Without => Command::new(program),
            Tek::Other(tool) => {
                let mut command = Command::new(tool);
                command.arg(program);
                command
            }
            Tek::Idle | Tek::Stack(..) => {
                let mut command = Command::new(&self.tek);
                command.args(["run", "--no-rules"]);
                if let Tek::Stack(mode, profiles) = tek {
                    command.args(["--stack", mode, "--stack-profiles"]).arg(profiles);
                    if let Some(arenas) = limits.arenas {
                        command.arg("--arena-max").arg(arenas.to_string());
                    }
                }
                command.arg("--").arg(program);
                command
            }
        };
        let ours = |(name, _): &(std::ffi::OsString, _)| {
            name.to_str().is_some_and(|name| name.starts_with("TEK_") && name != "TEK_LIBRARY")
        };
        for (name, _) in std::env::vars_os().filter(ours) {
            command.env_remove(name);
        }
        for name in ["LD_PRELOAD", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"] {
            command.env_remove(name);
        }
        if let (Tek::Without, Some(arenas)) = (tek, limits.arenas) {
            command.env("MALLOC_ARENA_MAX", arenas.to_string());
        }
        let prepare = move || limit_self(limits);
        // SAFETY: limit_self() makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(prepare) };
        command
    }

    /// Runs a program that prints one JSON document.
    pub fn run<T: DeserializeOwned>(&self, command: &mut Command) -> anyhow::Result<T> {
        match self.run_risky(command)? {
            Ended::Well(output) => Ok(output),
            Ended::Overflowed(text) => bail!("{}: a stack overflowed: {text}", name_of(command)),
        }
    }

    /// The same, where a stack that is too small is a result.
    pub fn run_risky<T: DeserializeOwned>(
        &self,
        command: &mut Command,
    ) -> anyhow::Result<Ended<T>> {
        let under_tek = command.get_program() == self.tek.as_os_str();
        let output = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", name_of(command)))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let printed: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if output.status.signal() == Some(libc::SIGSEGV) {
            return Ok(Ended::Overflowed(printed[printed.len().saturating_sub(3)..].join("; ")));
        }
        if !output.status.success() {
            let printed = printed[..printed.len().min(2)].join("; ");
            bail!("{}: {}: {printed}", name_of(command), output.status);
        }
        let value: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} printed something else than JSON", name_of(command)))?;
        // A variant must not silently be another one.
        ensure!(
            value["under_tek"] == under_tek,
            "{}: libtek.so is {}loaded",
            name_of(command),
            if under_tek { "not " } else { "" }
        );
        Ok(Ended::Well(serde_json::from_value(value)?))
    }
}

/// The program that a command starts, for people.
fn name_of(command: &Command) -> String {
    let path = Path::new(command.get_program());
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// In the child, before it executes: async-signal-safe.
fn limit_self(limits: Limits) -> io::Result<()> {
    lower(libc::RLIMIT_STACK, limits.stack)?;
    lower(libc::RLIMIT_CORE, 0)?;
    if let Some(bytes) = limits.address_space {
        lower(libc::RLIMIT_AS, bytes)?;
    }
    if limits.three_gib {
        // SAFETY: the call takes a plain number.
        if unsafe { libc::personality(PERSONALITY_32BIT_3GB) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sets a soft limit. prlimit64() because the numbers of other system calls depend on the machine.
fn lower(resource: libc::__rlimit_resource_t, soft: u64) -> io::Result<()> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives both calls, which take this process as 0.
    let failed = unsafe {
        libc::prlimit64(0, resource, ptr::null(), &mut limit) != 0 || {
            limit.rlim_cur = soft;
            libc::prlimit64(0, resource, &limit, ptr::null_mut()) != 0
        }
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_conventional_program_runs_without_tek() {
        let lab = Lab::with("/bin/tek".into()).unwrap();
        let limits = Limits { arenas: Some(1), ..Limits::default() };
        let command = lab.command(Path::new("/bin/fit"), Tek::Without, limits);
        assert_eq!(command.get_program(), "/bin/fit");
        let set = |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| {
            name == "MALLOC_ARENA_MAX" && value == Some("1".as_ref())
        };
        assert!(command.get_envs().any(set));
    }

    #[test]
    fn a_fitted_program_runs_with_profiles_of_ours() {
        let lab = Lab::with("/bin/tek".into()).unwrap();
        let limits = Limits { arenas: Some(1), ..Limits::default() };
        let tek = Tek::Stack("tight", Path::new("/tmp/p"));
        let command = lab.command(Path::new("/bin/fit"), tek, limits);
        let expected =
            "run --no-rules --stack tight --stack-profiles /tmp/p --arena-max 1 -- /bin/fit";
        assert_eq!(arguments(&command).join(" "), expected);
    }

    #[test]
    fn what_is_learnt_in_a_copy_stays_there() {
        let lab = Lab::with("/bin/tek".into()).unwrap();
        let learnt = lab.profiles("learnt").unwrap();
        assert!(!lab.has_profile(&learnt));
        std::fs::write(learnt.join("abc.stack"), "tek-stack-profile 1\n").unwrap();
        let copy = lab.copy_of(&learnt, "copy").unwrap();
        std::fs::write(copy.join("abc.stack"), "").unwrap();
        assert_eq!(
            std::fs::read_to_string(learnt.join("abc.stack")).unwrap(),
            "tek-stack-profile 1\n"
        );
        let again = lab.copy_of(&learnt, "copy").unwrap();
        assert_eq!(std::fs::metadata(again.join("abc.stack")).unwrap().len(), 20);
    }

    #[test]
    fn a_program_that_overflows_is_distinguished_from_one_that_fails() {
        let lab = Lab::with("/bin/tek".into()).unwrap();
        let mut killed = Command::new("/bin/sh");
        killed.args(["-c", "echo too deep >&2; kill -SEGV $$"]);
        let ended: Ended<serde_json::Value> = lab.run_risky(&mut killed).unwrap();
        assert!(matches!(ended, Ended::Overflowed(text) if text == "too deep"));
        let mut failed = Command::new("/bin/sh");
        failed.args(["-c", "exit 3"]);
        assert!(lab.run_risky::<serde_json::Value>(&mut failed).is_err());
    }
}
