// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories of the groups: made with their weights, all of them noted before.
//!
//! ```text
//! TOP              a group like any other of the device, of the kernel's own weight, so that
//! │                the kernel's threads outside keep their share whatever is set in here
//! ├── fast         the Fast Region
//! └── lazy         the Lazy Region
//!     ├── urgent, normal, service, background
//! ```
//!
//! On version 2 threads of one process can be in several groups only where these are threaded: TOP
//! becomes "domain threaded", which is what a group is called that has threaded ones beneath, and
//! whole processes are moved to it; everything beneath is threaded, and threads are moved there one
//! by one. Groups have weights only if the one above them has enabled the controller, so `cpu` is
//! enabled in the group above TOP, in TOP and in `lazy`. A group that has enabled it takes no
//! processes any more, so those in a delegated group go to TOP-outside, beside TOP.
use super::members::none_if_gone;
use super::Place;
use crate::hierarchy::REAL_TIME;
use crate::{Change, Effect, Error, Hierarchy, Identity, Version};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use tek_policy::{Group, Weights};

/// The file with the controllers that the groups below have.
const ENABLED: &str = "cgroup.subtree_control";
/// Highest number of passes over a group until no thread is in it.
const MOST_CHECKS: usize = 64;
/// How often, and how long after the last time, the kernel is asked to let the groups of a
/// delegated group have weights. It refuses for some time after a process in there has ended.
const MOST_TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// The groups of a place.
pub(super) struct Tree {
    pub(super) within: Hierarchy,
    pub(super) top: PathBuf,
    pub(super) fast: PathBuf,
    lazy: PathBuf,
    /// Processes outside of it stay there.
    pub(super) confined_to: Option<PathBuf>,
    /// The processes of the delegated group have a group of their own.
    has_outside: bool,
    pub(super) has_weights: bool,
    /// No thread in here can have a real-time policy.
    pub(super) refuses_real_time: bool,
    /// In the order in which they were made.
    pub(super) changes: Vec<Change>,
    pub(super) weights: Vec<Change>,
}

impl Tree {
    /// Makes it; if that fails, nothing is left.
    pub(super) fn make(
        effect: &mut Effect,
        place: &Place,
        weights: &Weights,
    ) -> Result<Self, Error> {
        let top = place.top();
        let mut tree = Self {
            within: place.within.clone(),
            fast: top.join("fast"),
            lazy: top.join("lazy"),
            top,
            confined_to: place.is_delegated.then(|| place.above.clone()),
            has_outside: false,
            has_weights: true,
            refuses_real_time: false,
            changes: Vec::new(),
            weights: Vec::new(),
        };
        match tree.fill(effect, place, weights) {
            Ok(()) => Ok(tree),
            Err(error) => {
                for change in tree.weights.into_iter().chain(tree.changes.into_iter().rev()) {
                    let _ = effect.undo(change); // it is in the journal still
                }
                Err(error)
            }
        }
    }

    fn fill(&mut self, effect: &mut Effect, place: &Place, weights: &Weights) -> Result<(), Error> {
        let above = &place.above;
        self.has_weights = self.within.version() == Version::V1 || has_cpu(above);
        let has_processes = self.within.version() == Version::V2 && place.is_delegated;
        if has_processes {
            self.clear(effect, place)?;
        }
        let (top, fast, lazy) = (self.top.clone(), self.fast.clone(), self.lazy.clone());
        self.changes.push(effect.make_directory(&top)?);
        self.refuses_real_time = top.join(REAL_TIME).exists();
        self.add(effect, &fast)?;
        self.add(effect, &lazy)?;
        for group in Group::ALL {
            self.add(effect, &self.group(group))?;
        }
        // Last, and so undone first: then the group above takes the threads that started in these.
        match has_processes {
            true => self.enable_above(effect, place)?,
            false => self.enable(effect, above)?,
        }
        for directory in [&top, &lazy] {
            self.enable(effect, directory)?;
        }
        self.weigh(effect, weights)
    }

    /// Moves the processes of a delegated group into one of their own.
    fn clear(&mut self, effect: &mut Effect, place: &Place) -> Result<(), Error> {
        let outside = place.above.join(format!("{}-outside", place.name));
        let list = place.above.join("cgroup.procs");
        for _ in 0..MOST_CHECKS {
            let pids: Vec<i32> = ids(&list).collect();
            if pids.is_empty() {
                return Ok(());
            }
            if !self.has_outside {
                self.changes.push(effect.make_directory(&outside)?);
                self.has_outside = true;
            }
            for pid in pids {
                let move_it = |thread_id| effect.move_to(thread_id, &self.within, &outside);
                self.changes.extend(none_if_gone(Identity::of(pid).and_then(move_it))?);
            }
        }
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        Err(Error::file(&place.above, "move all processes out of", busy))
    }

    /// Lets the groups in a delegated group have weights. Its processes were moved out of it, but
    /// one may have been started there since, and one that has ended counts until a CPU has left
    /// it, although the kernel lists it no more.
    fn enable_above(&mut self, effect: &mut Effect, place: &Place) -> Result<(), Error> {
        for _ in 1..MOST_TRIES {
            match self.enable(effect, &place.above) {
                Err(error) if error.errno() == libc::EBUSY => {}
                ended => return ended,
            }
            sleep(PAUSE);
            self.clear(effect, place)?;
        }
        self.enable(effect, &place.above)
    }

    /// Sets the weights of the groups of the Lazy Region, which may be set again.
    pub(super) fn weigh(&mut self, effect: &mut Effect, weights: &Weights) -> Result<(), Error> {
        let groups = if self.has_weights { &Group::ALL[..] } else { &[] };
        for &group in groups {
            let weight = weights.of(group);
            let change =
                self.weight(effect, &self.group(group), weight.shares(), weight.weight())?;
            self.weights.push(change);
        }
        // The later changes now restore the values from before the earlier ones.
        let earlier = self.weights.len() - groups.len();
        self.weights.drain(..earlier).try_for_each(|change| effect.undo(change).map(drop))
    }

    /// Sets one, worded for the version.
    fn weight(
        &self,
        effect: &mut Effect,
        directory: &Path,
        shares: u32,
        weight: u32,
    ) -> Result<Change, Error> {
        let (file, value) = match self.within.version() {
            Version::V1 => ("cpu.shares", shares),
            Version::V2 => ("cpu.weight", weight),
        };
        effect.write_file(&directory.join(file), value.to_string().as_bytes())
    }

    /// Makes a group beneath TOP.
    fn add(&mut self, effect: &mut Effect, directory: &Path) -> Result<(), Error> {
        self.changes.push(effect.make_directory(directory)?);
        if self.within.version() == Version::V2 {
            let kind = directory.join("cgroup.type");
            self.changes.push(effect.write_file(&kind, b"threaded")?);
        }
        Ok(())
    }

    /// Lets the groups beneath have weights.
    fn enable(&mut self, effect: &mut Effect, directory: &Path) -> Result<(), Error> {
        if self.within.version() == Version::V1 || !self.has_weights {
            return Ok(());
        }
        let file = directory.join(ENABLED);
        if !has_word(&file, "cpu") {
            self.changes.push(effect.write_file(&file, b"+cpu")?);
        }
        Ok(())
    }

    /// The directory of a group of the Lazy Region.
    pub(super) fn group(&self, group: Group) -> PathBuf {
        self.lazy.join(group.name())
    }

    /// The files by which a process of one thread joins a group of version 2, in this order.
    pub(super) fn joins(&self, group: Group) -> [PathBuf; 2] {
        [self.top.join("cgroup.procs"), self.group(group).join("cgroup.threads")]
    }

    /// Sets the weight that makes the Fast Region fast. The Lazy Region keeps the kernel's own.
    pub(super) fn enter(&self, effect: &mut Effect, weights: &Weights) -> Result<Change, Error> {
        let floor = weights.floor;
        self.weight(effect, &self.fast, floor.fast_shares(), floor.fast_weight())
    }

    /// Whether a thread is in one of these groups.
    pub(super) fn holds(&self, tid: i32) -> Result<bool, Error> {
        let group = self.within.group_of(tid)?;
        Ok(Path::new(&group).starts_with(self.within.group(&self.top)?))
    }

    /// Whether a thread is in this very group.
    pub(super) fn is_in(&self, tid: i32, directory: &Path) -> Result<bool, Error> {
        Ok(self.within.group_of(tid)? == self.within.group(directory)?)
    }

    /// The threads in the Fast Region's group.
    pub(super) fn fast_tids(&self) -> Vec<i32> {
        self.tids(&self.fast)
    }

    /// The threads in the topmost group.
    pub(super) fn topmost_tids(&self) -> Vec<i32> {
        self.tids(self.within.mount_point())
    }

    fn tids(&self, directory: &Path) -> Vec<i32> {
        let file = match self.within.version() {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        ids(&directory.join(file)).collect()
    }
}

/// The ids in a file that are visible in this PID namespace.
fn ids(file: &Path) -> impl Iterator<Item = i32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let ids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    ids.into_iter().filter(|&id| id > 0)
}

fn has_cpu(directory: &Path) -> bool {
    has_word(&directory.join("cgroup.controllers"), "cpu")
}

fn has_word(file: &Path, word: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().any(|one| one == word)
}
