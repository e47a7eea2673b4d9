// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tekd for this benchmark alone: it may touch only the processes that the benchmark started.

use super::ground::{end_with_parent, Ground};
use anyhow::{bail, ensure, Context};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufReader, Seek};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tek_abi::{Request, ASK_STATUS};
use tek_command::daemon::Connection;

/// A device under full load starts programs slowly.
const PATIENCE: Duration = Duration::from_secs(30);

/// The backend of tekd: how critical threads come before ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    Rt,
    Fair,
}

impl Backend {
    /// As tekd.toml(5) has it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Rt => "rt",
            Backend::Fair => "fair",
        }
    }

    /// The policy that a Fast thread has.
    pub fn policy(self) -> i32 {
        match self {
            Backend::Rt => libc::SCHED_RR,
            Backend::Fair => libc::SCHED_OTHER,
        }
    }
}

/// How the priority of a kernel thread is computed (kernel-threads-wapip-2007, IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kthreads {
    /// Equation (1): that of the highest waiter.
    Plain,
    /// Equations (2) and (3), the default of tekd.
    Weighted,
}

/// The configuration of tekd.
#[derive(Clone, Copy)]
pub struct Settings {
    pub backend: Backend,
    /// Each process is in the control group of its kind.
    pub groups: bool,
    /// Budgets and the canary.
    pub guard: bool,
    /// Processes switch by themselves.
    pub limit: bool,
    /// Kernel threads follow the priorities of the threads that wait for them.
    pub kthreads: Option<Kthreads>,
}

impl Settings {
    /// As most have it.
    pub fn of(backend: Backend) -> Settings {
        Settings {
            backend,
            groups: backend == Backend::Fair,
            guard: true,
            limit: false,
            kthreads: None,
        }
    }

    /// The text of tekd.toml.
    pub fn text(self) -> String {
        let mut text = format!("backend = \"{}\"\nprotected = []\n", self.backend.name());
        if !self.guard {
            text += "canary_seconds = 0\n";
        }
        match self.kthreads {
            Some(Kthreads::Plain) => text += "[kthreads]\nmethod = \"plain\"\n",
            Some(Kthreads::Weighted) => text += "[kthreads]\n",
            None => {}
        }
        if self.groups {
            text += &format!("[groups]\nname = \"{}\"\n", group_name());
            for (group, name) in PLACES {
                text += &format!("[[place]]\ngroup = \"{group}\"\nnames = [\"{name}\"]\n");
            }
        }
        text += "[[grant]]\nusers = [\"*\"]\nthreads = 1024\nuser_threads = 1024\nrate = 10000\n";
        if !self.guard {
            text += "budget = \"off\"\n";
        }
        if self.limit {
            text += "limit = true\n";
        }
        text
    }
}

/// The papers' group of each program.
pub const PLACES: [(&str, &str); 5] = [
    ("urgent", "appliance*"),
    ("urgent", "media"),
    ("normal", "network"),
    ("service", "updater"),
    ("background", "indexer"),
];

/// TEK's top group, distinct from that of the device's own tekd.
pub fn group_name() -> String {
    format!("tek-bench-{}", std::process::id())
}

/// The resources that tekd has used since its start.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Usage {
    pub cpu_ns: u64,
    /// Times that one of its threads slept and was woken.
    pub wake_ups: u64,
    /// Calls of read(2) and write(2) and their like; `None` where the kernel does not count them.
    pub calls: Option<u64>,
    pub resident_kib: u64,
}

impl Usage {
    /// Of this process.
    fn of(pid: u32) -> anyhow::Result<Usage> {
        let mut usage = Usage::default();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?.path();
            let cpu = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            usage.cpu_ns += cpu.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            usage.wake_ups += number(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            usage.resident_kib = number(&status, "VmRSS:").unwrap_or(0);
        }
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        usage.calls = number(&io, "syscr:").zip(number(&io, "syscw:")).map(|(r, w)| r + w);
        Ok(usage)
    }

    /// The use between an earlier sample and this one.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            wake_ups: self.wake_ups.saturating_sub(earlier.wake_ups),
            calls: self.calls.zip(earlier.calls).map(|(now, then)| now.saturating_sub(then)),
            resident_kib: self.resident_kib,
        }
    }
}

/// The first number of a line of a file of /proc.
fn number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A tekd that serves. When this is dropped, it ends and restores everything.
pub struct Daemon {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
}

impl Daemon {
    /// Starts one and waits until it serves.
    pub fn start(ground: &Ground, settings: Settings) -> anyhow::Result<Daemon> {
        fs::write(ground.path("tekd.toml"), settings.text())?;
        let log = ground.path("log");
        let mut command = command(ground);
        command.stderr(File::options().append(true).create(true).open(&log)?);
        let earlier = fs::metadata(&log)?.len();
        let child = command.spawn().context("cannot start tekd")?;
        let mut daemon = Daemon { child, log, socket: ground.socket() };
        let end = Instant::now() + PATIENCE;
        while Connection::to(&daemon.socket).is_err() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("tekd ended: {status}: {}", daemon.printed(earlier));
            }
            ensure!(Instant::now() < end, "tekd did not begin to serve");
            sleep(Duration::from_millis(2));
        }
        // It accepts connections before it serves, and serves before kernel threads follow.
        daemon.wait_until_started("kthreads")?;
        Ok(daemon)
    }

    /// Waits until BPF programs are loaded for `kthreads` or, which the first critical thread
    /// starts, for `inherit`.
    pub fn wait_until_started(&self, part: &str) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.status()?[part]["starting"] == true {
            ensure!(Instant::now() < end, "the BPF programs of {part} were not loaded");
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its use until now.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.pid()).context("tekd has ended")
    }

    /// Its status.
    pub fn status(&self) -> anyhow::Result<Value> {
        let (_, file) = Connection::to(&self.socket)?.ask(Request::new(ASK_STATUS, 0))?;
        let mut file = file.context("no status came with tekd's reply")?;
        file.rewind()?;
        Ok(serde_json::from_reader(BufReader::new(file))?)
    }

    /// The threads of a process that are Fast by it, lifted ones too; fails if it has another
    /// backend.
    pub fn fast_threads(&self, pid: u32, backend: Backend) -> anyhow::Result<Vec<i32>> {
        let status = self.status()?;
        ensure!(
            status["backend"] == backend.name(),
            "tekd is not of backend {}: {}",
            backend.name(),
            status["backend_why"]
        );
        let fast = status["fast"].as_array().map_or(&[][..], Vec::as_slice);
        let of_process = fast.iter().filter(|thread| thread["pid"] == pid);
        Ok(of_process.filter_map(|thread| thread["tid"].as_i64()?.try_into().ok()).collect())
    }

    /// Ends it cleanly.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let status = self.end(Signal::SIGTERM)?;
        ensure!(status.success(), "tekd did not end well: {status}: {}", self.printed(0));
        Ok(())
    }

    /// Ends it by a signal.
    pub fn end(&mut self, signal: Signal) -> anyhow::Result<ExitStatus> {
        kill(Pid::from_raw(self.child.id() as i32), signal)?;
        Ok(self.child.wait()?)
    }

    /// The last lines that it wrote.
    fn printed(&self, from: u64) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text =
            String::from_utf8_lossy(text.get(from as usize..).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(3)..].join("; ")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.end(Signal::SIGTERM);
        }
    }
}

/// The command of tekd, which serves; options may be added.
pub fn command(ground: &Ground) -> Command {
    let mut command = Command::new(ground.tekd());
    command.arg("--config").arg(ground.path("tekd.toml"));
    command.arg("--socket").arg(ground.socket()).arg("--state").arg(ground.state());
    command.arg("--domain").arg(format!("pid:{}", std::process::id()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "JOURNAL_STREAM"] {
        command.env_remove(variable);
    }
    let prepare = || end_with_parent(libc::SIGTERM);
    // SAFETY: one system call.
    unsafe { command.pre_exec(prepare) };
    command
}

/// Restores the changes that a killed tekd left: returns how many changes were undone.
pub fn restore(ground: &Ground) -> anyhow::Result<usize> {
    let ended = command(ground)
        .arg("--restore")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .context("cannot start tekd")?;
    let printed = String::from_utf8_lossy(&ended.stdout);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "tekd --restore: {}: {complaint}", ended.status);
    Ok(printed.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t5\nVmRSS:\t 812 kB\n";
        assert_eq!(number(text, "voluntary_ctxt_switches:"), Some(5));
        assert_eq!(number(text, "VmRSS:"), Some(812));
        assert_eq!(number(text, "VmSwap:"), None);
    }

    #[test]
    fn only_the_difference_of_two_samples_counts() {
        let earlier = Usage { cpu_ns: 10, wake_ups: 2, calls: Some(7), resident_kib: 5 };
        let later = Usage { cpu_ns: 15, wake_ups: 2, calls: Some(9), resident_kib: 6 };
        let used = Usage { cpu_ns: 5, wake_ups: 0, calls: Some(2), resident_kib: 6 };
        assert_eq!(later.since(earlier), used);
    }

    #[test]
    fn keys_of_the_whole_file_come_before_the_tables() {
        let settings =
            Settings { groups: true, guard: false, limit: true, ..Settings::of(Backend::Rt) };
        let text = settings.text();
        let keys = text.split("\n[").next().unwrap();
        for key in ["backend", "protected", "canary_seconds"] {
            assert!(keys.contains(&format!("{key} = ")), "{text}");
        }
        assert!(text.ends_with("budget = \"off\"\nlimit = true\n"), "{text}");
    }
}
