// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding and running the benchmark programs.

use anyhow::{bail, Context};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use tek_command::system::library::BUILD_AGAIN;

/// The path of `tek`, which runs programs under TEK.
pub fn tek() -> anyhow::Result<PathBuf> {
    beside("tek")
}

/// The path of a program of TEK that lies beside this one.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let path = directory()?.join(name);
    if !path.is_file() {
        bail!("{name} is missing: {} does not exist; {BUILD_AGAIN}", path.display());
    }
    Ok(path)
}

/// The directory of this program.
fn directory() -> anyhow::Result<PathBuf> {
    let link = std::env::current_exe().context("cannot tell where tek itself is")?;
    let own = link.canonicalize().with_context(|| format!("cannot resolve {}", link.display()))?;
    Ok(own.parent().unwrap_or(Path::new("/")).to_owned())
}

/// The program NAME of the benchmark BENCH, in a build tree or as installed.
pub fn find(bench: &str, name: &str) -> anyhow::Result<PathBuf> {
    let bin = directory()?;
    let places =
        [bin.join("../bench").join(bench).join(name), bin.join("../libexec/tek").join(name)];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.canonicalize()?),
        None => bail!(
            "the benchmark program {name} is missing: neither {} nor {} exists; {BUILD_AGAIN}",
            places[0].display(),
            places[1].display()
        ),
    }
}

/// A program of PATH, or of the directories for administrators.
pub fn installed(name: &str) -> Option<PathBuf> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    find_in(&path, name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).filter(|place| place != Path::new(""));
    places.find_map(|place| Some(place.join(name)).filter(|program| program.is_file()))
}

/// Runs a program that prints one JSON document, and reads it.
pub fn run_json<T: serde::de::DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{:?} failed: {}", command.get_program(), output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{:?} printed something else than JSON", command.get_program()))
}

/// The time that a program may take to end; `tek run` passes the signal on and waits.
const TO_END: Duration = Duration::from_secs(2);

/// Runs a program and returns its output. A program that hangs is ended after `limit`.
pub fn output_within(mut command: Command, limit: Duration) -> anyhow::Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let (ended, watch) = mpsc::channel::<()>();
    let pid = child.id() as libc::pid_t;
    let watcher = thread::spawn(move || {
        let is_late = |limit| watch.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        let late = is_late(limit);
        if late {
            // SAFETY: takes numbers only. The child is not waited for before this thread has ended.
            unsafe { libc::kill(pid, libc::SIGTERM) };
            if is_late(TO_END) {
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        late
    });
    let mut stderr = child.stderr.take();
    let complaint = thread::spawn(move || {
        let mut complaint = String::new();
        let _ = stderr.as_mut().map(|err| err.read_to_string(&mut complaint));
        complaint
    });
    let mut printed = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |mut out| out.read_to_end(&mut printed));
    drop(ended);
    let late = watcher.join().unwrap_or(false);
    let status = child.wait()?;
    let complaint = complaint.join().unwrap_or_default();
    read?;
    if late {
        bail!("it was ended after {} s", limit.as_secs());
    }
    if !status.success() {
        bail!("{status}: {}", complaint.trim());
    }
    Ok(printed)
}

/// A program of the benchmark that takes commands as lines, and answers with lines of JSON. It is
/// killed when this is dropped.
pub struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(mut command: Command) -> anyhow::Result<Program> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Program { child, output })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a line.
    pub fn announce(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("no input")?;
        // It may have died meanwhile; then the next line is a better report than the pipe's error.
        let _ = input.write_all(line.as_bytes());
        Ok(())
    }

    /// The next line of its output.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.child.wait()?;
            let mut printed = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                let _ = stderr.read_to_string(&mut printed);
            }
            bail!("it ended early: {status}: {}", printed.trim());
        }
        Ok(line)
    }

    pub fn read_line<T: serde::de::DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        serde_json::from_str(&self.line()?).context("it printed something else than JSON")
    }

    /// Lets it end by itself, which it does at the end of its input.
    pub fn let_go(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail harmlessly once it has ended and is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_is_searched_in_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let tool = directory.path().join("stackusage");
        std::fs::write(&tool, "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), directory.path()]).unwrap();
        assert_eq!(find_in(&path, "stackusage"), Some(tool));
        assert_eq!(find_in("/nowhere:".as_ref(), "stackusage"), None);
    }

    #[test]
    fn a_program_that_dies_is_reported_with_its_own_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such luck >&2; exit 3"]);
        let error = Program::start(command).unwrap().line().unwrap_err();
        assert!(error.to_string().contains("no such luck"), "{error}");
    }
}
