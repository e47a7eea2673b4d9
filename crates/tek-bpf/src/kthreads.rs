// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded programs.
use crate::dependency::{Dependency, Hook, Kind, State, GROUPS, NO_PIPES};
use crate::error::Error;
use crate::event::{Event, RawEvent, What};
use crate::load::{self, attach, io_error, refuse, Loaded};
use crate::maps::{put, take, Maps, Remembered};
use crate::watch::Packets;
use crate::watcher::Watcher;
use crate::{probe, Follow};
use libbpf_rs::{Link, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::FromBytes;

/// The maximum number of events in one call of [`Kthreads::drain`]: the capacity of the ring.
const AT_ONCE: usize = 4096;

/// The number of counts of lost events at the start of `struct tek_kthread_tallies`.
const DEPENDENCIES: usize = 12;
/// The index of `works`, the first count of entries, in units of `int`: after `lost_one` and
/// `tasks`.
const FIRST_COUNT: usize = 2 * DEPENDENCIES + 2;

/// The attached programs. Dropping this detaches them; nothing outlives the process.
///
/// Each call is a few system calls of some microseconds; `open` takes some 100 ms.
pub struct Kthreads {
    // Dropped before the object.
    links: Vec<(&'static str, Link)>,
    ring: RingBuffer<'static>,
    read: Arc<Mutex<Vec<RawEvent>>>,
    /// Reused by each call of `drain`.
    buffer: Vec<RawEvent>,
    maps: Maps,
    fast: HashSet<i32>,
    boosted: HashSet<i32>,
    /// Entries that this process made in `tasks`, less the entries that it removed.
    tasks: i32,
    packets: Packets,
    /// The distances of kernel variables, which are constant.
    distances: [i64; 3],
    dependencies: Vec<Dependency>,
    /// `None`: the watcher owns the object.
    object: Option<Object>,
    /// The watcher attaches all programs.
    is_lazy: bool,
}

impl Kthreads {
    /// Loads and attaches the programs that this kernel accepts. Needs CAP_BPF and CAP_PERFMON, or
    /// root.
    pub fn open() -> Result<Self, Error> {
        let mut this = Self::load(None)?;
        this.attach_all();
        Ok(this)
    }

    /// Loads the programs of these dependencies only. [`Watcher::watch`] attaches all of them, and
    /// until then nothing is reported.
    pub fn open_for(kinds: &[Kind]) -> Result<Self, Error> {
        Self::load(Some(kinds))
    }

    fn load(only: Option<&[Kind]>) -> Result<Self, Error> {
        let Loaded { object, dependencies, distances } = load::load(only)?;
        let maps = Maps::of(&object)?;
        let read = Arc::new(Mutex::new(Vec::with_capacity(AT_ONCE)));
        let into = Arc::clone(&read);
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(&maps.events, move |bytes| {
            if let Ok((event, _)) = RawEvent::read_from_prefix(bytes) {
                into.lock().unwrap_or_else(PoisonError::into_inner).push(event);
            }
            0
        });
        added.map_err(|error| Error::Events { source: io_error(&error) })?;
        let ring = builder.build().map_err(|error| Error::Events { source: io_error(&error) })?;
        let this = Self {
            links: Vec::new(),
            ring,
            read,
            buffer: Vec::new(),
            maps,
            fast: HashSet::new(),
            boosted: HashSet::new(),
            tasks: 0,
            packets: Packets::default(),
            distances,
            dependencies,
            object: Some(object),
            is_lazy: only.is_some(),
        };
        this.set_settings()?;
        Ok(this)
    }

    /// The dependencies, each with its limitations or the reason why it is off.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    /// The descriptor for epoll(7) or poll(2), to wait for reading. Some events make it readable
    /// without a wake-up, so call [`Kthreads::drain`] before waiting.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.maps.events.as_fd()
    }

    /// Passes all events to `f`, oldest first, and returns the number of raw events.
    pub fn drain(&mut self, mut f: impl FnMut(Event)) -> Result<usize, Error> {
        let got = self.ring.consume_raw_n(AT_ONCE);
        if got < 0 {
            return Err(Error::Events { source: io::Error::from_raw_os_error(-got) });
        }
        std::mem::swap(
            &mut self.buffer,
            &mut *self.read.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let (mut left_fast, mut left_boosted) = (false, false);
        for event in self.buffer.drain(..).filter_map(|raw| raw.typed()) {
            if let What::TaskExited { tid, .. } = event.what {
                left_fast |= self.fast.remove(&tid);
                left_boosted |= self.boosted.remove(&tid);
            }
            f(event);
        }
        if left_fast || left_boosted {
            self.set_settings()?;
        }
        Ok(got as usize)
    }

    /// Sets the priorities of members (a bit each, 1 to 99) that the boost of a kernel thread
    /// covers. A relation of a covered priority does not wake the reader. With `Some(0)` the thread
    /// is not boosted, and its works and requests belong to no task. `None` also removes the entry;
    /// 0 makes the next boost cheaper.
    pub fn set_boosted(&mut self, tid: i32, covered: Option<u128>) -> Result<(), Error> {
        match covered {
            Some(bits) => {
                let value = [(bits as u64).to_ne_bytes(), ((bits >> 64) as u64).to_ne_bytes()];
                put(&self.maps.boosted, "boosted", tid, value.as_flattened())?;
                match self.boosted.insert(tid) {
                    true => self.set_settings(),
                    false => Ok(()),
                }
            }
            None => {
                take(&self.maps.boosted, "boosted", tid)?;
                self.boosted.remove(&tid);
                self.set_settings()
            }
        }
    }

    /// Sets whether events of a task are reported. A task without an entry is reported, and each
    /// begin of a relation of it wakes the reader. The entry ends with the task; `None` removes it.
    pub fn set_follow(&mut self, tid: i32, follow: Option<Follow>) -> Result<(), Error> {
        let value = match follow {
            None => {
                if take(&self.maps.tasks, "tasks", tid)? {
                    self.tasks -= 1;
                    self.set_settings()?;
                }
                return Ok(());
            }
            Some(Follow::Ignore) => 0u32,
            Some(Follow::Follow) => 1u32,
        };
        if put(&self.maps.tasks, "tasks", tid, &value.to_ne_bytes())? {
            self.tasks += 1;
            self.set_settings()?;
        }
        Ok(())
    }

    /// Makes an ordinary thread critical with this real-time priority (1 to 99); `None` ends that.
    pub fn set_fast(&mut self, tid: i32, priority: Option<u8>) -> Result<(), Error> {
        match priority {
            Some(priority) => {
                let value = u32::from(priority.clamp(1, 99)).to_ne_bytes();
                put(&self.maps.fast, "fast", tid, &value)?;
                self.fast.insert(tid);
            }
            None => {
                take(&self.maps.fast, "fast", tid)?;
                self.fast.remove(&tid);
            }
        }
        self.set_settings()
    }

    /// The part that attaches the programs on hot paths; `None` after the first call.
    pub fn watcher(&mut self) -> Option<Watcher> {
        let on = self.dependencies.iter().filter(|d| d.is_on()).map(|d| d.kind).collect();
        Some(Watcher::new(self.object.take()?, on, self.is_lazy))
    }

    /// Sets when the programs report packets: the result of [`Watcher::watch`].
    pub fn set_packets(&mut self, packets: Packets) -> Result<(), Error> {
        self.packets = packets;
        self.set_settings()
    }

    /// The number of page cache pages that a critical task brought in and that are still there.
    /// Only pages that [`Watch::pages`](crate::Watch) counted are included.
    pub fn pages(&self, tid: i32) -> Result<u64, Error> {
        let found = self.maps.brought.lookup(&tid.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(|e| Error::Map { map: "brought", tid, source: io_error(&e) })?;
        let pages = found.and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_ne_bytes);
        Ok(u64::try_from(pages).unwrap_or(0))
    }

    /// Makes the programs forget all relations, after events were lost. The ends of these relations
    /// are not reported any more; relations that begin later are reported.
    pub fn forget(&mut self) -> Result<(), Error> {
        self.maps.remembered.iter_mut().for_each(Remembered::clear);
        self.set_settings()?;
        self.drain(|_| ()).map(drop)
    }

    /// Makes the programs forget which tasks sleep in the kernel, and which threads work for
    /// storage, after they were detached ([`Watch::storage`](crate::Watch)).
    pub fn forget_storage(&mut self) -> Result<(), Error> {
        let of_storage = |map: &&mut Remembered| ["waiting", "busy", "pending"].contains(&map.name);
        self.maps.remembered.iter_mut().filter(of_storage).for_each(Remembered::clear);
        self.set_settings()
    }

    /// Makes the programs forget which user threads critical tasks wait for, after they were
    /// detached ([`Watch::locks`](crate::Watch), [`Watch::answers`](crate::Watch)).
    pub fn forget_waits(&mut self) -> Result<(), Error> {
        let of_waits =
            |map: &&mut Remembered| ["lock_waits", "sends", "awaited"].contains(&map.name);
        self.maps.remembered.iter_mut().filter(of_waits).for_each(Remembered::clear);
        self.set_settings()
    }

    /// Makes the programs forget one queued work, for which no task can wait any more: some kernels
    /// report no cancelled works ([`State::On`](crate::State::On)).
    pub fn forget_work(&mut self, work: u64) -> Result<(), Error> {
        // A work that has begun is not in this map.
        let works = self.maps.remembered.iter_mut().filter(|map| map.name == "works");
        works.for_each(|map| map.remove(&work.to_ne_bytes()));
        self.set_settings()
    }

    /// The number of lost events, and of things without an entry, since the programs were loaded.
    /// The next [`Event`] after a loss reports it too.
    pub fn lost(&self) -> Result<Vec<(Kind, u64)>, Error> {
        let tallies = self.tallies()?;
        let counts = tallies
            .chunks_exact(8)
            .take(DEPENDENCIES)
            .map(|bytes| bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default());
        let kinds = [
            Kind::Workers,
            Kind::Writeback,
            Kind::Reclaim,
            Kind::PageCache,
            Kind::Block,
            Kind::Creation,
            Kind::Uring,
            Kind::Exits,
            Kind::Network,
            Kind::Storage,
            Kind::Locks,
            Kind::Answers,
        ];
        Ok(kinds.into_iter().zip(counts).collect())
    }

    /// The maps whose entries the programs count, with the number of entries.
    pub fn entries(&self) -> Result<Vec<(&'static str, i32)>, Error> {
        let tallies = self.tallies()?;
        let counts = tallies.chunks_exact(4).skip(FIRST_COUNT);
        let counts = counts.map(|bytes| bytes.try_into().map(i32::from_ne_bytes).unwrap_or(0));
        let counted = self.maps.remembered.iter().filter_map(|map| Some((map.name, map.removed?)));
        Ok(counted.zip(counts).map(|((name, removed), made)| (name, made - removed)).collect())
    }

    fn tallies(&self) -> Result<Vec<u8>, Error> {
        let found = self.maps.tallies.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let error = |source| Error::Map { map: "tallies", tid: 0, source };
        found.map_err(|e| error(io_error(&e)))?.ok_or_else(|| error(io::ErrorKind::NotFound.into()))
    }

    /// Whether no program sees writes to pipes.
    fn counts_writes(&self) -> bool {
        let lacks_pipes = |state: &State| match state {
            State::On { but } => but.iter().any(|limitation| limitation.starts_with(NO_PIPES)),
            State::Off(_) => false,
        };
        self.dependencies.iter().any(|d| d.kind == Kind::Answers && lacks_pipes(&d.state))
    }

    fn is_on(&self, kind: Kind) -> bool {
        self.dependencies.iter().any(|d| d.kind == kind && d.is_on())
    }

    /// Attaches all programs but those on hot paths. A program that fails switches its dependency
    /// off.
    fn attach_all(&mut self) {
        // Programs that report ends first, so that each reported relation can end.
        let all = GROUPS.iter().flat_map(|group| group.hooks.iter().map(|hook| (group.kind, hook)));
        let hooks: Vec<(Kind, &Hook)> = all.filter(|(_, hook)| !hook.watch).collect();
        let mut lacking: HashSet<&str> = HashSet::new();
        for (kind, hook) in hooks.into_iter().rev() {
            if !self.is_on(kind) || lacking.contains(hook.program) {
                continue;
            }
            let Err(error) = self.attach(kind, hook) else { continue };
            let message = error.to_string();
            for mine in self.dependencies.iter_mut().filter(|d| d.kind == kind) {
                refuse(mine, hook, &message);
            }
            for group in GROUPS.iter().filter(|group| group.kind == kind) {
                let lost: HashSet<&str> = group.fellows(hook).map(|other| other.program).collect();
                self.links.retain(|(program, _)| !lost.contains(program));
                lacking.extend(lost);
            }
        }
        probe::propagate(&mut self.dependencies);
        let off: HashSet<&str> = GROUPS
            .iter()
            .filter(|group| !self.is_on(group.kind))
            .flat_map(|group| group.hooks)
            .map(|hook| hook.program)
            .collect();
        self.links.retain(|(program, _)| !off.contains(program));
    }

    fn attach(&mut self, kind: Kind, hook: &Hook) -> Result<(), Error> {
        let Some(object) = &mut self.object else { return Ok(()) };
        let Some(link) = attach(object, kind, hook)? else { return Ok(()) };
        self.links.push((hook.program, link));
        Ok(())
    }

    /// Writes the settings. The numbers of entries let programs skip empty maps.
    fn set_settings(&self) -> Result<(), Error> {
        let count = |set: &HashSet<i32>| (set.len() as u32).to_ne_bytes();
        let counts = [count(&self.fast), count(&self.boosted)];
        let tasks = [self.tasks.to_ne_bytes(), (self.packets as u32).to_ne_bytes()];
        let counts_writes = [u32::from(self.counts_writes()), 0].map(u32::to_ne_bytes);
        let distances = self.distances.map(i64::to_ne_bytes);
        let removed = self.maps.removed().map(i32::to_ne_bytes);
        let value = [
            distances.as_flattened(),
            counts.as_flattened(),
            tasks.as_flattened(),
            counts_writes.as_flattened(),
            removed.as_flattened(),
        ];
        let value = value.concat();
        let done = self.maps.settings.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY);
        done.map_err(|e| Error::Map { map: "settings", tid: 0, source: io_error(&e) })
    }
}
