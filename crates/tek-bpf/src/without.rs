// SPDX-License-Identifier: MIT OR Apache-2.0
//! The build without a loader: `open` fails.
use crate::dependency::{Dependency, Kind};
use crate::error::Error;
use crate::event::Event;
use crate::watch::{Packets, Watch};
use crate::Follow;
use std::convert::Infallible;
use std::os::fd::BorrowedFd;

/// Has no value in this build.
#[derive(Debug)]
pub struct Kthreads(Infallible);

impl Kthreads {
    /// Returns the error that this build has no loader.
    pub fn open() -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// The same for some dependencies.
    pub fn open_for(_: &[Kind]) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    /// The dependencies that can be followed.
    pub fn dependencies(&self) -> &[Dependency] {
        match self.0 {}
    }

    /// Readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    /// Takes the events.
    pub fn drain(&mut self, _: impl FnMut(Event)) -> Result<usize, Error> {
        match self.0 {}
    }

    /// Notes the priority that a kernel thread has for its dependants.
    pub fn set_boosted(&mut self, _: i32, _: Option<u128>) -> Result<(), Error> {
        match self.0 {}
    }

    /// Notes whether the events of a task are reported.
    pub fn set_follow(&mut self, _: i32, _: Option<Follow>) -> Result<(), Error> {
        match self.0 {}
    }

    /// Notes a critical task.
    pub fn set_fast(&mut self, _: i32, _: Option<u8>) -> Result<(), Error> {
        match self.0 {}
    }

    /// The part that attaches programs on hot paths.
    pub fn watcher(&mut self) -> Option<Watcher> {
        match self.0 {}
    }

    /// Sets when packets are reported.
    pub fn set_packets(&mut self, _: Packets) -> Result<(), Error> {
        match self.0 {}
    }

    /// The number of pages that a thread brought.
    pub fn pages(&self, _: i32) -> Result<u64, Error> {
        match self.0 {}
    }

    /// Forgets all that was noted.
    pub fn forget(&mut self) -> Result<(), Error> {
        match self.0 {}
    }

    /// Forgets tasks that sleep, and threads that work for storage.
    pub fn forget_storage(&mut self) -> Result<(), Error> {
        match self.0 {}
    }

    /// Forgets which user threads tasks wait for.
    pub fn forget_waits(&mut self) -> Result<(), Error> {
        match self.0 {}
    }

    /// Forgets one work.
    pub fn forget_work(&mut self, _: u64) -> Result<(), Error> {
        match self.0 {}
    }

    /// The number of lost events.
    pub fn lost(&self) -> Result<Vec<(Kind, u64)>, Error> {
        match self.0 {}
    }

    /// The number of entries in each map.
    pub fn entries(&self) -> Result<Vec<(&'static str, i32)>, Error> {
        match self.0 {}
    }
}

/// Has no value in this build.
#[derive(Debug)]
pub struct Watcher(Infallible);

impl Watcher {
    /// Attaches the programs for these events.
    pub fn watch(&mut self, _: Watch) -> Result<Packets, Error> {
        match self.0 {}
    }

    /// The names of the programs that are attached.
    pub fn attached(&self) -> Vec<&'static str> {
        match self.0 {}
    }
}
