// SPDX-License-Identifier: MIT OR Apache-2.0
//! The maps through which the programs and userland exchange data.
use crate::completers;
use crate::error::Error;
use crate::load::io_error;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use std::io;
use tek_procfs::path;

/// The maps that userland writes or reads.
pub(crate) struct Maps {
    pub events: MapHandle,
    pub tasks: MapHandle,
    pub fast: MapHandle,
    pub boosted: MapHandle,
    pub brought: MapHandle,
    pub settings: MapHandle,
    pub tallies: MapHandle,
    /// Relations that the programs keep until their end.
    pub remembered: Vec<Remembered>,
}

/// A map that the programs fill. Userland may remove entries from it.
pub(crate) struct Remembered {
    pub name: &'static str,
    map: MapHandle,
    /// Entries that userland removed; `None`: the programs do not count its entries.
    pub removed: Option<i32>,
}

impl Remembered {
    /// Removes one entry. A missing entry is no error: it has ended meanwhile.
    pub fn remove(&mut self, key: &[u8]) {
        if self.map.delete(key).is_ok() {
            self.removed = self.removed.map(|removed| removed.wrapping_add(1));
        }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        for key in self.map.keys().collect::<Vec<_>>() {
            self.remove(&key);
        }
    }
}

/// The maps, each with whether the programs count its entries.
const REMEMBERED: [(&str, bool); 18] = [
    ("works", true),
    ("running", true),
    ("inodes", true),
    ("requests", true),
    ("reclaiming", true),
    ("creating", true),
    ("packets", true),
    ("waiting", true),
    ("busy", true),
    ("lock_waits", true),
    ("sends", true),
    ("awaited", true),
    ("wbs", false),
    ("tellings", false),
    ("uring", false),
    ("pending", false),
    ("wakers", false),
    ("inboxes", false),
];

impl Maps {
    /// The maps of the loaded programs, with the entries that userland writes at the start.
    pub fn of(object: &Object) -> Result<Self, Error> {
        name_threads(&map(object, "reclaimers")?, &map(object, "cpu_threads")?);
        name_completers(&map(object, "completers")?);
        Ok(Self {
            events: map(object, "events")?,
            tasks: map(object, "tasks")?,
            fast: map(object, "fast")?,
            boosted: map(object, "boosted")?,
            brought: map(object, "brought")?,
            settings: map(object, ".data.settings")?,
            tallies: map(object, ".data.tallies")?,
            remembered: REMEMBERED
                .iter()
                .map(|(name, is_counted)| {
                    let removed = is_counted.then_some(0);
                    Ok(Remembered { name, map: map(object, name)?, removed })
                })
                .collect::<Result<_, _>>()?,
        })
    }

    /// `struct tek_kthread_removed`.
    pub fn removed(&self) -> [i32; 12] {
        let mut counts = [0; 12];
        let counted = self.remembered.iter().filter_map(|map| map.removed);
        counts.iter_mut().zip(counted).for_each(|(count, removed)| *count = removed);
        counts
    }
}

fn map(object: &Object, name: &str) -> Result<MapHandle, Error> {
    let missing = || Error::Load { message: format!("there is no map {name} in them") };
    let found = object.maps().find(|map| map.name() == name).ok_or_else(missing)?;
    MapHandle::try_from(&found).map_err(|error| Error::Load { message: error.to_string() })
}

/// Enters the threads of each node (kswapd, kcompactd) and each CPU (ksoftirqd, backlog_napi,
/// ktimers) in their maps. The programs enter a missing thread of a node when it goes to sleep.
fn name_threads(of_nodes: &MapHandle, of_cpus: &MapHandle) {
    let Ok(processes) = std::fs::read_dir("/proc") else { return };
    let tids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for tid in tids.collect::<Vec<i32>>() {
        let name = path(tid, "comm").and_then(std::fs::read_to_string).unwrap_or_default();
        const KNOWN: [(&str, bool, u32); 5] = [
            ("kswapd", false, 0),
            ("kcompactd", false, 1),
            ("ksoftirqd/", true, 0),
            ("backlog_napi/", true, 1),
            ("ktimers/", true, 2),
        ];
        let found = KNOWN.iter().find_map(|(prefix, is_of_cpu, what)| {
            let number = name.trim_end().strip_prefix(prefix)?.parse::<u32>().ok()?;
            Some((if *is_of_cpu { of_cpus } else { of_nodes }, number | what << 16))
        });
        let Some((map, key)) = found else { continue };
        // A kernel thread has no program.
        if path(tid, "exe").and_then(std::fs::read_link).is_err() {
            let _ = map.update(&key.to_ne_bytes(), &tid.to_ne_bytes(), MapFlags::ANY);
        }
    }
}

/// Enters the likely completers of requests, before the programs observe them.
fn name_completers(map: &MapHandle) {
    for (place, tid, name) in completers::find_completers() {
        let key = [place.disk.to_ne_bytes(), place.queue.to_ne_bytes()];
        // struct completer
        let mut value = [0; 20];
        value[..4].copy_from_slice(&tid.to_ne_bytes());
        value[4..19].iter_mut().zip(name.bytes()).for_each(|(byte, its)| *byte = its);
        let _ = map.update(key.as_flattened(), &value, MapFlags::ANY);
    }
}

/// Returns whether this added an entry. The exit of a thread removes its entries, so an entry that
/// is added after the exit would stay for ever. Therefore this removes the entry of a missing
/// thread.
pub(crate) fn put(
    map: &MapHandle,
    name: &'static str,
    tid: i32,
    value: &[u8],
) -> Result<bool, Error> {
    let error = |e| Error::Map { map: name, tid, source: io_error(&e) };
    let key = tid.to_ne_bytes();
    if map.update(&key, value, MapFlags::EXIST).is_ok() {
        return Ok(false);
    }
    map.update(&key, value, MapFlags::ANY).map_err(error)?;
    match tek_procfs::exists(tid) {
        true => Ok(true),
        // If the entry is gone, the programs have counted it as removed.
        false => take(map, name, tid).map(|removed| !removed),
    }
}

/// Removes an entry, and returns whether there was one. A missing entry is no error.
pub(crate) fn take(map: &MapHandle, name: &'static str, tid: i32) -> Result<bool, Error> {
    match map.delete(&tid.to_ne_bytes()).map_err(|e| io_error(&e)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(Error::Map { map: name, tid, source }),
    }
}
