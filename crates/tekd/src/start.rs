// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start: from the command line to a running server.
use crate::backend::Backend;
use crate::backends::Backends;
use crate::canary::Canary;
use crate::configuration;
use crate::directories::Directories;
use crate::domain::Domain;
use crate::exec_watch::ExecWatch;
use crate::kthreads::{self, Kthreads, Wanted};
use crate::listener::{self, Listener};
use crate::log;
use crate::noncritical::Noncritical;
use crate::notify::Notify;
use crate::options::Options;
use crate::own_priority::become_first;
use crate::placement::Placement;
use crate::requests;
use crate::restored;
use crate::server::{Parts, Server};
use crate::sys;
use anyhow::{bail, Context, Result};
use nix::sys::mman::{mlockall, MlockAllFlags};
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tek_effect::{Effect, Error, Restored};
use tek_policy::{Backend as Choice, Configuration};

/// Descriptors that are enough for all clients and all Fast threads.
const DESCRIPTORS: libc::rlim_t = 4096;

/// Runs tekd as the options say.
pub fn run(options: Options) -> Result<()> {
    if sys::is_set_uid() {
        bail!("tekd is set-uid, set-gid or has file capabilities: start it as root instead");
    }
    if options.restore {
        return restore(&options);
    }
    let loaded = configuration::load(options.config.as_ref())?;
    if options.check {
        print!("{}", configuration::describe(&loaded));
        return Ok(());
    }
    let signals = catch_signals()?;
    // The canary is an ordinary thread because its maker still is one.
    let canary = Canary::start().context("cannot start the canary")?;
    // On a device under load the start takes long until tekd is real-time.
    sys::be_nice(-20);
    let _directories = Directories::make_for(&options.state, "--state")?;
    // Before any effect outside of tekd: a second tekd ends here.
    let (effect, restored) = open(&options.state)?;
    restored::announce(&restored);
    let listener = match Listener::open(&options.socket) {
        Ok(listener) => listener,
        Err(error) => {
            effect.close();
            return Err(error);
        }
    };
    let exec_watch = watch_exec();
    raise_own_limits();
    log::info(&format!("configuration: {}", loaded.source));
    loaded.warnings.iter().for_each(|line| log::warning(line));
    let domain = Domain::new(options.domain);
    let backends = backends(effect, &options.state, &loaded.configuration, &domain)?;
    let high = loaded.configuration.real_time.high;
    let server = Server::new(Parts {
        backends,
        loaded,
        file: options.config,
        domain,
        listener,
        signals,
        canary,
        birth_watch: exec_watch.as_ref().and_then(|_| ExecWatch::of_births().ok()),
        exec_watch,
        notify: Notify::from_environment(),
        answer: requests::answer,
    })?;
    if let Err(error) = log::start_writer() {
        log::warning(&format!("tekd may have to wait for standard error: {error}"));
    }
    become_first(high + 2);
    // Reads from a disk now, and not in the midst of a reply.
    sys::bring_program_to_memory();
    server.run()
}

/// Chooses the backend, and places all processes. The caller does this before its thread outranks
/// the device, because it may take a while.
fn backends(
    mut effect: Effect,
    state: &Path,
    with: &Configuration,
    domain: &Domain,
) -> Result<Backends> {
    let (mut backend, backend_why) = backend(with);
    let placement = match Placement::start(&mut effect, with, backend) {
        // No other backend is left: each request is refused with the reason.
        Err(error) if with.backend == Choice::Auto => {
            log::warning(&format!("{error:#}"));
            backend = Backend::Rt;
            Placement::start(&mut effect, with, backend)
        }
        placement => placement,
    };
    let mut placement = match placement {
        Ok(placement) => placement,
        Err(error) => {
            effect.close();
            return Err(error);
        }
    };
    if let Some(why) = placement.why_not().filter(|_| with.groups.is_some()) {
        log::warning(&format!("there are no groups: {why}"));
    }
    log::info(&format!("backend {}: {backend_why}", backend.name()));
    if let Some(groups) = placement.shown() {
        log::info(&format!("groups: {}", groups.place));
    }
    placement.place_all(&mut effect, with, domain);
    let (range, noncritical) = (with.real_time, Noncritical::default());
    let kthreads = Kthreads::start(Wanted {
        configuration: with.clone(),
        state: state.to_owned(),
        domain: domain.clone(),
        is_fair: backend == Backend::Fair,
        attaching_priority: with.real_time.high + 1,
    });
    Ok(Backends { effect, range, placement, noncritical, kthreads, backend, backend_why })
}

/// The backend, and the reason for it.
fn backend(with: &Configuration) -> (Backend, String) {
    match with.backend {
        Choice::Rt => (Backend::Rt, "tekd.toml says so".to_owned()),
        Choice::Fair => (Backend::Fair, "tekd.toml says so".to_owned()),
        Choice::Auto => match sys::can_be_first(with.real_time.high + 2) {
            Ok(()) => (Backend::Rt, "tekd may make threads real-time".to_owned()),
            Err(error) => (Backend::Fair, format!("tekd may not make threads real-time ({error})")),
        },
    }
}

fn open(state: &Path) -> Result<(Effect, Restored)> {
    match Effect::open(state) {
        Err(Error::Busy { directory }) => bail!(
            "tekd runs already{}: stop that one, or give this one its own --state and --socket",
            lock_owner(&directory).map(|pid| format!(" as process {pid}")).unwrap_or_default()
        ),
        opened => Ok(opened?),
    }
}

/// The process that holds a directory's lock, from /proc/locks.
fn lock_owner(directory: &Path) -> Option<String> {
    let inode = format!(":{}", fs::metadata(directory).ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // As in "1: FLOCK ADVISORY WRITE 4711 fe:01:81234 0 EOF".
    locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(4);
        let (pid, file) = (fields.next()?, fields.next()?);
        file.ends_with(&inode).then(|| pid.to_owned())
    })
}

fn restore(options: &Options) -> Result<()> {
    let state = &options.state;
    if !state.exists() {
        println!("Nothing is to be restored: {} is not there.", state.display());
        return Ok(());
    }
    let _directories = Directories::make_for(state, "--state")?;
    let (effect, mut restored) = open(state)?;
    let mut failed = Vec::new();
    if let Some((effect, of_kernel)) = kthreads::restore(state)? {
        restored.undone += of_kernel.undone;
        restored.gone += of_kernel.gone;
        restored.changed += of_kernel.changed;
        failed = effect.close().failed;
    }
    println!(
        "{} changes were undone; {} were of threads that have ended, {} were changed by others \
         since.",
        restored.undone, restored.gone, restored.changed
    );
    failed.extend(effect.close().failed);
    listener::clear(&options.socket);
    match failed.first() {
        None => Ok(()),
        Some(failed) => bail!("{failed}"),
    }
}

fn catch_signals() -> Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Listens from now on, so that a program that is executed during the placement is reported.
fn watch_exec() -> Option<ExecWatch> {
    let watch = ExecWatch::of_changes().and_then(|mut watch| {
        watch.listen(true)?;
        Ok(watch)
    });
    match watch {
        Ok(watch) => Some(watch),
        Err(error) => {
            log::info(&format!(
                "the kernel reports no events of processes ({error}): they are looked at instead, \
                 CAP_NET_ADMIN would spare that"
            ));
            None
        }
    }
}

fn raise_own_limits() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // With fewer descriptors it serves fewer clients.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(DESCRIPTORS)), hard);
    }
    // Memory in use stays locked; unused memory is not faulted in.
    let flags = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    if let Err(error) = mlockall(flags | on_fault) {
        log::info(&format!("tekd's memory is not locked ({error}): CAP_IPC_LOCK would allow it"));
    }
    sys::keep_freed_memory();
    sys::have_no_huge_pages();
}
