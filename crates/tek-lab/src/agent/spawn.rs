// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a job: a process that sees a machine which no job has changed.
use super::error::{Doing, Error};
use super::{own, room};
use crate::Job;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{unshare, CloneFlags};
use nix::sys::resource::{setrlimit, Resource, RLIM_INFINITY};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::stat::{umask, Mode};
use nix::unistd::{
    chdir, dup2_stderr, dup2_stdin, dup2_stdout, fork, pipe2, setsid, ForkResult, Pid,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The common environment of all jobs; a job can override it.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
    ("USER", "root"),
    ("TMPDIR", "/tmp"),
    ("OUT", "/out"),
    ("TERM", "dumb"),
    ("LANG", "C.UTF-8"),
];

/// A job that was started.
pub(super) struct Started {
    /// Its first process.
    pub(super) leader: Pid,
    /// Its standard output; reads do not wait.
    pub(super) output: File,
    /// Its standard error.
    pub(super) error: File,
}

/// Why a job was not started: its own fault.
pub(super) struct NotStarted {
    /// In words.
    pub(super) why: String,
    /// The system's error, if it was one.
    pub(super) errno: Option<i32>,
}

impl NotStarted {
    fn new(what: &str, errno: Errno) -> Self {
        Self { why: format!("{what}: {}", errno.desc()), errno: Some(errno as i32) }
    }

    /// As a child reports it to its parent: the number, and the words.
    fn to_bytes(&self) -> Vec<u8> {
        [&self.errno.unwrap_or(0).to_le_bytes(), self.why.as_bytes()].concat()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (errno, why) = bytes.split_first_chunk()?;
        let errno = Some(i32::from_le_bytes(*errno)).filter(|errno| *errno != 0);
        Some(Self { why: String::from_utf8_lossy(why).into_owned(), errno })
    }
}

impl From<String> for NotStarted {
    fn from(why: String) -> Self {
        Self { why, errno: None }
    }
}

/// Starts it in a session of its own. The inner error is the job's own fault.
pub(super) fn start(job: &Job) -> Result<Result<Started, NotStarted>, Error> {
    let (output, to_output) = pipe(OFlag::O_NONBLOCK)?;
    let (error, to_error) = pipe(OFlag::O_NONBLOCK)?;
    let (mut failure, mut to_failure) = pipe(OFlag::empty())?;
    own::step_back()?;
    // SAFETY: this process has one thread, so the child may do all that this one may.
    match unsafe { fork() }.doing("make a process")? {
        ForkResult::Child => {
            let why = become_job(job, to_output, to_error);
            // exec closes it, so if exec succeeds the parent reads nothing.
            let _ = to_failure.write_all(&why.to_bytes());
            // SAFETY: it ends the process and nothing else.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            own::rise()?;
            drop(to_failure);
            let mut why = Vec::new();
            failure.read_to_end(&mut why).doing("hear from a new process")?;
            Ok(match NotStarted::parse(&why) {
                None => Ok(Started { leader: child, output, error }),
                Some(why) => Err(why),
            })
        }
    }
}

fn pipe(reading: OFlag) -> Result<(File, File), Error> {
    let (from, to) = pipe2(OFlag::O_CLOEXEC).doing("make a pipe")?;
    // A large pipe, so that a job that writes much need not wait for the agent to read.
    let _ = nix::fcntl::fcntl(&to, nix::fcntl::FcntlArg::F_SETPIPE_SZ(1 << 20));
    nix::fcntl::fcntl(&from, nix::fcntl::FcntlArg::F_SETFL(reading)).doing("make a pipe")?;
    Ok((File::from(from), File::from(to)))
}

/// Returns only if it fails, with the reason.
fn become_job(job: &Job, output: File, error: File) -> NotStarted {
    let Some((program, arguments)) = job.command.split_first() else {
        return String::from("it has no command").into();
    };
    if let Err(error) = prepare(output.into(), error.into()) {
        return error.to_string().into();
    }
    let directory = job.directory.as_deref().unwrap_or("/tmp");
    if let Err(error) = chdir(directory) {
        return NotStarted::new(directory, error);
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(ENVIRONMENT).envs(&job.environment);
    let error = command.exec();
    match error.raw_os_error() {
        Some(number) => NotStarted::new(program, Errno::from_raw(number)),
        None => format!("{program}: {error}").into(),
    }
}

fn prepare(output: OwnedFd, error: OwnedFd) -> Result<(), Error> {
    setsid().doing("make a session")?;
    // Mounts, names and IPC objects of a job end with its processes.
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    unshare(own).doing("have mounts of its own")?;
    room::enter()?;
    let null = File::open("/dev/null").doing("open /dev/null")?;
    dup2_stdin(&null).doing("set its standard input")?;
    dup2_stdout(&output).doing("set its standard output")?;
    dup2_stderr(&error).doing("set its standard error")?;
    umask(Mode::from_bits_truncate(0o022));
    own_limits()?;
    fs::write("/proc/self/oom_score_adj", "0").doing("set its oom_score_adj")?;
    default_signals()
}

/// As on a machine with systemd: a high hard limit of open files, no core files.
fn own_limits() -> Result<(), Error> {
    let limits = [
        (Resource::RLIMIT_CORE, 0, RLIM_INFINITY),
        (Resource::RLIMIT_NOFILE, 1024, 1 << 19),
        (Resource::RLIMIT_NPROC, RLIM_INFINITY, RLIM_INFINITY),
    ];
    for (limit, soft, hard) in limits {
        setrlimit(limit, soft, hard).doing(format!("set {limit:?}"))?;
    }
    Ok(())
}

fn default_signals() -> Result<(), Error> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        if signal != Signal::SIGKILL && signal != Signal::SIGSTOP {
            // SAFETY: no handler is installed, one is removed at most.
            unsafe { sigaction(signal, &default) }.doing(format!("reset {signal}"))?;
        }
    }
    nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .doing("unblock signals")
}

#[cfg(test)]
mod tests {
    use super::NotStarted;
    use nix::errno::Errno;

    #[test]
    fn a_child_reports_to_its_parent_why_it_did_not_start() {
        let log = |why: NotStarted| {
            let read = NotStarted::parse(&why.to_bytes()).unwrap();
            (read.why, read.errno)
        };
        let missing = log(NotStarted::new("x", Errno::ENOENT));
        assert_eq!(missing, ("x: No such file or directory".to_owned(), Some(libc::ENOENT)));
        assert_eq!(log(String::from("no command").into()), ("no command".to_owned(), None));
        assert!(NotStarted::parse(b"").is_none());
    }
}
