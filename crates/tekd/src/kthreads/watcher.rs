// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that attaches programs to hot paths and detaches them.
//!
//! The kernel needs some time for that, and the reactor must receive events meanwhile. This thread
//! is real-time, because hogs would starve an ordinary thread. Its priority is below tekd's main
//! thread, because it needs seconds of CPU time on a slow device.
use super::command::Command;
use super::Shared;
use crate::log;
use crate::own_priority::become_first;
use crate::sys;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tek_bpf::{Watch, Watcher};
use tek_effect::PiMutex;

const STACK_BYTES: usize = 256 << 10;

/// A request to the thread.
enum Request {
    Watch(Watch),
    End,
}

/// The last request, and the descriptor that wakes the thread. The reactor must not wait for this
/// thread, which may lack a CPU for long: this lock inherits priorities, and channels do not.
struct Wanted {
    request: PiMutex<Option<Request>>,
    bell: EventFd,
}

impl Wanted {
    fn notify(&self, request: Request) {
        *self.request.lock() = Some(request);
        let _ = self.bell.write(1);
    }
}

/// The requests and the thread, which ends when this is dropped.
pub struct Watching {
    wanted: Option<Arc<Wanted>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    pub fn start(shared: &Arc<Shared>, watcher: Watcher) -> Self {
        let started =
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(Into::into).and_then(|bell| {
                let wanted = Arc::new(Wanted { request: PiMutex::new(None), bell });
                let (theirs, reported) = (Arc::clone(shared), Arc::clone(&wanted));
                let named = Builder::new().name("hot-paths".to_owned()).stack_size(STACK_BYTES);
                Ok((wanted, named.spawn(move || obey(&theirs, watcher, &reported))?))
            });
        match started {
            Ok((wanted, thread)) => Self { wanted: Some(wanted), thread: Some(thread) },
            Err(error) => {
                let error: std::io::Error = error;
                log::warning(&format!("pages and packets of critical tasks are missed: {error}"));
                Self { wanted: None, thread: None }
            }
        }
    }

    /// Requests that only the programs for this watch are attached to hot paths soon.
    pub fn want(&self, watch: Watch) {
        if let Some(wanted) = &self.wanted {
            wanted.notify(Request::Watch(watch));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(wanted) = &self.wanted {
            wanted.notify(Request::End);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn obey(shared: &Shared, mut watcher: Watcher, wanted: &Wanted) {
    let mut priority = shared.attaching_priority.load(Ordering::Relaxed);
    become_first(priority);
    sys::never_wait_for_disks();
    while wanted.bell.read().is_ok() {
        // Of several requests the last one counts.
        let request = wanted.request.lock().take();
        let watch = match request {
            Some(Request::Watch(watch)) => watch,
            Some(Request::End) => break,
            None => continue,
        };
        let now = shared.attaching_priority.load(Ordering::Relaxed);
        if priority != now {
            priority = now;
            become_first(priority);
        }
        match watcher.watch(watch) {
            Ok(packets) => {
                shared.notify(Command::Watched(watch, packets));
            }
            Err(error) => log::warning(&error.to_string()),
        }
    }
    let _ = sys::become_ordinary();
}
