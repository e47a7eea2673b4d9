// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that attaches programs to hot paths and takes them off again. The kernel needs some time for
//! that, in which who reacts would hear of nobody; it is urgent to nobody.
use super::reactor::Command;
use super::Shared;
use crate::log;
use crate::sys;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tek_bpf::{Watch, Watcher};

const STACK_BYTES: usize = 256 << 10;

/// What it is told, and itself. It ends when this is dropped.
pub struct Watching {
    wanted: Option<Sender<Watch>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    pub fn start(shared: &Arc<Shared>, watcher: Watcher) -> Self {
        let (wanted, told) = channel();
        let theirs = Arc::clone(shared);
        let run = move || obey(&theirs, watcher, &told);
        let named = Builder::new().name("hot-paths".to_owned()).stack_size(STACK_BYTES);
        let thread = named.spawn(run).inspect_err(|error| {
            log::warning(&format!("pages and packets of critical tasks are not seen: {error}"));
        });
        Self { wanted: Some(wanted), thread: thread.ok() }
    }

    /// Has this seen, soon.
    pub fn want(&self, watch: Watch) {
        if let Some(wanted) = &self.wanted {
            // Without the thread nothing is seen, which was said.
            let _ = wanted.send(watch);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.wanted.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn obey(shared: &Shared, mut watcher: Watcher, told: &Receiver<Watch>) {
    let _ = sys::become_ordinary();
    while let Ok(first) = told.recv() {
        // Of several wishes the last one counts.
        let wanted = told.try_iter().last().unwrap_or(first);
        match watcher.watch(wanted) {
            Ok(packets) => {
                shared.state.lock().commands.push(Command::Packets(packets));
                let _ = shared.bell.write(1);
            }
            Err(error) => log::warning(&error.to_string()),
        }
    }
}
