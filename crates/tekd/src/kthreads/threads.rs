// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two threads that react, never on the same CPU.
//!
//! Many kernels let a task that is in a system call go on to its end, or to where it would sleep, some
//! milliseconds with much data: a critical task that writes would keep the one thread from running that is
//! to help it. So there are two, with half of the CPUs each. Whichever comes first does what there is to
//! be done. On one CPU there is one.
use super::reactor::Next;
use super::Shared;
use crate::log;
use crate::start::become_first;
use crate::sys;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::unistd::{gettid, Pid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const STACK_BYTES: usize = 256 << 10;
/// By then an event that the kernel has begun is finished, if its writer has a CPU.
const UNFINISHED: Duration = Duration::from_millis(1);
/// What epoll says of commands.
const BELL: u64 = 1;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    /// Wakes for events only.
    Second,
}

/// Until they are told to stop. Everything is given back then.
pub fn follow(shared: &Arc<Shared>) {
    let halves = halves();
    let second = halves.and_then(|(_, theirs)| second(shared, theirs));
    keep_to(halves.map(|(own, _)| own));
    let ended = react(shared, Which::First);
    let _ = shared.over.write(1);
    if let Some(thread) = second {
        let _ = thread.join();
    }
    if let Err(error) = ended {
        log::error(&format!("kernel threads are followed no more: {error}"));
    }
    let reactor = shared.state.lock().reactor.take();
    if let Some(reactor) = reactor {
        reactor.end();
    }
}

fn second(shared: &Arc<Shared>, cpus: CpuSet) -> Option<JoinHandle<()>> {
    let theirs = Arc::clone(shared);
    let run = move || {
        keep_to(Some(cpus));
        if let Err(error) = react(&theirs, Which::Second) {
            log::warning(&format!("kernel threads are followed by one thread only: {error}"));
        }
    };
    let thread = Builder::new().name("kthreads-2".to_owned()).stack_size(STACK_BYTES).spawn(run);
    thread.inspect_err(|error| log::warning(&format!("there is no second thread: {error}"))).ok()
}

/// Every other CPU, and the rest; `None` where there is one.
fn halves() -> Option<(CpuSet, CpuSet)> {
    let all = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut halves = [CpuSet::new(), CpuSet::new()];
    let there = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false));
    let count = there.enumerate().filter_map(|(n, cpu)| halves[n % 2].set(cpu).ok()).count();
    let [own, theirs] = halves;
    (count > 1).then_some((own, theirs))
}

/// If that cannot be, only chance keeps the two apart.
fn keep_to(cpus: Option<CpuSet>) {
    if let Some(cpus) = cpus {
        let _ = sched_setaffinity(Pid::from_raw(0), &cpus);
    }
}

fn react(shared: &Shared, which: Which) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let (events, mut priority) = {
        let mut state = shared.state.lock();
        let Some(reactor) = &mut state.reactor else { return Ok(()) };
        reactor.ignore(gettid().as_raw())?;
        (reactor.events()?, reactor.priority)
    };
    become_first(priority);
    sys::never_wait_for_disks();
    // Once for each time that the kernel wakes us. An event that it has begun and not finished makes the ring
    // readable, too, and who writes it may be waiting for this very CPU: we would spin for ever.
    epoll.add(&events, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
    let wakes = if which == Which::First { &shared.bell } else { &shared.over };
    epoll.add(wakes, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
    let mut ready = [EpollEvent::empty(); 2];
    loop {
        let guard = match which {
            Which::First => Some(shared.state.lock()),
            // The first one was here before.
            Which::Second if !is_readable(&events) => None,
            // The first one has it, and looks once more before it sleeps.
            Which::Second => shared.state.try_lock(),
        };
        let mut timeout = None;
        if let Some(mut state) = guard {
            let Some(mut reactor) = state.reactor.take() else { return Ok(()) };
            let next = reactor.turn(&mut state);
            let wanted = reactor.priority;
            state.reactor = Some(reactor);
            drop(state);
            if priority != wanted {
                priority = wanted;
                become_first(priority);
            }
            match next? {
                Next::End => return Ok(()),
                Next::Again => continue,
                Next::Sleep(most) => {
                    // What is behind an unfinished event waits for that, and nobody wakes us then. Nor does
                    // what came for a thread just before its boost ended.
                    let waits = is_readable(&events).then_some(UNFINISHED);
                    let most = most.filter(|_| which == Which::First);
                    timeout = waits.into_iter().chain(most).min().map(in_ms);
                }
            }
        }
        match epoll.wait(&mut ready, timeout.unwrap_or(EpollTimeout::NONE)) {
            Ok(count) if ready[..count].iter().any(|it| it.data() == BELL) => match which {
                Which::First => drop(shared.bell.read()),
                Which::Second => return Ok(()),
            },
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_readable(events: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

fn in_ms(most: Duration) -> EpollTimeout {
    let ms = most.as_nanos().div_ceil(1_000_000);
    EpollTimeout::from(u16::try_from(ms).unwrap_or(u16::MAX))
}
