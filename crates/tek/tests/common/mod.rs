// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared parts of the tests of `tek run`.
#![allow(dead_code)] // Not every test file uses all of it.
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A library that does nothing, as libtek.so's stand-in.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty.so");
        let built = Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(&path)
            .status()
            .expect("the tests need a C compiler");
        assert!(built.success());
        path
    })
}

pub fn tek() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tek"));
    command.env("TEK_LIBRARY", library());
    command
}

/// `tek run -- ARGUMENTS`.
pub fn under_tek<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = tek();
    command.args(["run", "--"]).args(arguments);
    command
}

pub fn sh(script: &str) -> Command {
    under_tek(["sh", "-c", script])
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a command, with its standard output to be read line by line.
pub fn start(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

pub fn line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

pub fn state_of(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
