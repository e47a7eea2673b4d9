// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ground of the benchmark's processes: a directory of its own that every user can enter, with
//! programs in it, and users of its own. However the benchmark ends, a guardian clears it.

use crate::guardian::Guardian;
use crate::programs;
use anyhow::Context;
use nix::sys::resource::{setrlimit, Resource};
use nix::unistd::{geteuid, setsid};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tek_command::system::library;

/// The first of the users. The range is systemd's for transient services, which have no files.
pub const FIRST_USER: u32 = 64_501;

/// The user "nobody".
const NOBODY: u32 = 65_534;

/// A program of a benchmark, by the directory in which it is built, and the name of its executable.
pub type Copied = (&'static str, &'static str, &'static str);

/// Waits for the end of the benchmark, whatever ends it. Then it restores the changes that a killed
/// tekd left, and removes the directory.
const GUARDIAN: &str = r#"
tries=0
while [ -e "$3/state" ] && [ $tries -lt 200 ]; do
	"$2" --restore --state "$3/state" && break
	tries=$((tries + 1))
	sleep 0.1
done
[ -e "$3/state" ] || rm -rf "$1" "$3"
"#;

/// The directory for tekd's state, in memory. On a disk its writes might wait for the benchmark.
const MEMORY: &str = "/dev/shm";

/// The user of a process, and its session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user that runs the benchmark.
    Own,
    /// One of its own users, if it can choose; without any rights.
    Number(u32),
    /// The user "nobody", if it can choose; without any rights. The C library knows its name.
    Nobody,
}

/// All of it. The started programs must have ended before it is dropped.
pub struct Ground {
    directory: PathBuf,
    /// Of tekd's state.
    memory: PathBuf,
    tekd: PathBuf,
    _guardian: Guardian,
}

impl Ground {
    /// Makes the directory, in `parent` or where temporary files lie, and copies the programs.
    pub fn prepare(programs: &[Copied], parent: Option<&Path>) -> anyhow::Result<Ground> {
        let tekd = programs::beside("tekd")?;
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let made = tempfile::Builder::new().prefix("tek-bench-").tempdir_in(parent);
        let directory = made.context("cannot make a directory for programs")?.keep();
        let memory = tempfile::Builder::new().prefix("tek-bench-").tempdir_in(MEMORY);
        let memory = memory.map_or_else(|_| directory.clone(), tempfile::TempDir::keep);
        let guardian = match Guardian::start(GUARDIAN, [&directory, &tekd, &memory]) {
            Ok(guardian) => guardian,
            Err(error) => {
                let _ = fs::remove_dir_all(directory);
                let _ = fs::remove_dir_all(memory);
                return Err(error);
            }
        };
        let ground = Ground { directory, memory, tekd, _guardian: guardian };
        fs::set_permissions(&ground.directory, Permissions::from_mode(0o755))?;
        for &(bench, program, name) in programs {
            let from = programs::find(bench, program)?;
            fs::copy(from, ground.path(name)).context("cannot copy a benchmark program")?;
        }
        let (library, _) = library::find()?;
        ground.copy_library(&library).context("cannot copy libtek.so")?;
        Ok(ground)
    }

    /// Copies libtek.so under all its names: programs that are linked with it ask for its SONAME.
    fn copy_library(&self, library: &Path) -> std::io::Result<()> {
        fs::copy(library, self.path(library::TEK))?;
        let beside = library.parent().unwrap_or(Path::new("."));
        for entry in fs::read_dir(beside)? {
            let from = entry?.path();
            let name = from.file_name().unwrap_or_default();
            if name.to_string_lossy().starts_with("libtek.so.") && from.is_file() {
                fs::copy(&from, self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// A file there.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory of tekd's journal.
    pub fn state(&self) -> PathBuf {
        self.memory.join("state")
    }

    /// The daemon's program.
    pub fn tekd(&self) -> &Path {
        &self.tekd
    }

    /// Where the daemon of the benchmark listens.
    pub fn socket(&self) -> PathBuf {
        self.path("run/tekd")
    }

    /// The command of one of the programs; its arguments are to be added. It ends with the
    /// benchmark.
    pub fn command(&self, name: &str, user: User, own_session: bool) -> Command {
        let mut command = self.surviving_command(name);
        let may_choose = geteuid().is_root();
        let uid = match user {
            User::Own => None,
            User::Number(number) => Some(FIRST_USER + number),
            User::Nobody => Some(NOBODY),
        };
        if let Some(uid) = uid.filter(|_| may_choose) {
            command.uid(uid).gid(uid);
        }
        let prepare = move || {
            if own_session {
                setsid()?;
            }
            if user != User::Own {
                // Without the limit it must ask tekd.
                setrlimit(Resource::RLIMIT_RTPRIO, 0, 0)?;
            }
            end_with_parent(libc::SIGKILL)
        };
        // SAFETY: it makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(prepare) };
        command
    }

    /// The same for a program that ends by itself, as the user that runs the benchmark.
    pub fn surviving_command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(name));
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("TEK_") {
                command.env_remove(variable);
            }
        }
        command.env_remove("LD_PRELOAD").env("LD_LIBRARY_PATH", &self.directory);
        command.env("TEK_SOCKET", self.socket());
        command
    }
}

/// Has the calling process receive this signal when the thread that started it ends.
pub fn end_with_parent(signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
