// SPDX-License-Identifier: MIT OR Apache-2.0
//! An ordinary thread reads the configuration again: the file may be on a disk, and names of users
//! may be in a network.
use super::{Server, LOADED};
use crate::configuration::{self, Loaded};
use crate::log;
use crate::subordinate::Subordinates;
use crate::sys;
use anyhow::Result;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;
use tek_effect::PiMutex;

/// A configuration that was read.
struct Read {
    loaded: Result<Loaded>,
    subordinates: Subordinates,
}

/// Reads configurations, one after the other.
pub struct Loading {
    read: Arc<PiMutex<Option<Read>>>,
    /// Rings when a configuration was read.
    bell: Arc<EventFd>,
    is_reading: bool,
    /// It must be read once more after that.
    again: bool,
}

impl Loading {
    pub fn new(epoll: &Epoll) -> Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&bell, EpollEvent::new(EpollFlags::EPOLLIN, LOADED))?;
        let (read, bell) = (Arc::new(PiMutex::new(None)), Arc::new(bell));
        Ok(Self { read, bell, is_reading: false, again: false })
    }

    fn start(&mut self, file: Option<PathBuf>) -> std::io::Result<()> {
        let (read, bell) = (Arc::clone(&self.read), Arc::clone(&self.bell));
        let work = move || {
            let loaded = configuration::load(file.as_ref());
            *read.lock() = Some(Read { loaded, subordinates: Subordinates::read() });
            let _ = bell.write(1);
        };
        Builder::new().name("configuration".to_owned()).spawn(work).map(drop)
    }
}

impl Server {
    /// Begins to read the configuration again.
    pub(super) fn reload(&mut self) {
        if self.loading.is_reading {
            self.loading.again = true;
            return;
        }
        self.notify.reloading(sys::monotonic_ns());
        match self.loading.start(self.file.clone()) {
            Ok(()) => self.loading.is_reading = true,
            Err(error) => {
                log::error(&format!("the configuration is not read: no thread for that: {error}"));
                self.notify.ready();
            }
        }
    }

    /// Applies the configuration that was read. Requests that it does not grant end; an invalid one
    /// changes nothing.
    pub(super) fn take_loaded(&mut self) {
        let _ = self.loading.bell.read();
        let read = self.loading.read.lock().take();
        let Some(Read { loaded, subordinates }) = read else { return };
        self.loading.is_reading = false;
        match loaded {
            Err(error) => log::error(&format!("{error:#}; what was read before stays in force")),
            Ok(loaded) => self.set_configuration(loaded, subordinates),
        }
        self.notify.ready();
        if std::mem::take(&mut self.loading.again) {
            self.reload();
        }
    }
}
