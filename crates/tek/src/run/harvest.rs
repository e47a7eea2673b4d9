// SPDX-License-Identifier: MIT OR Apache-2.0
//! Learns about stacks from the tables that processes leave in a run's directory. `PID-N.ended` of
//! ended processes are read while the program runs, `PID.table` of killed ones at its end.
use super::directory::{is_alive, open_own, RunDirectory};
use super::stack::{nothing_is_learnt, Tuning};
use crate::message;
use crate::stack_use::learn::{self, Learnt};
use nix::poll::PollTimeout;
use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tek_model::{Functions, Table};
use tek_stack::Store;

/// In a run's directory: the store of the learnt profiles, for the tek that clears up after a
/// killed one.
const PROFILES: &str = "profiles";

/// Tables that are read at one poll, so that signals and messages do not wait long.
const MOST_AT_ONCE: usize = 64;
/// Most tables in a directory that are searched for.
const MOST_NAMES: usize = 100_000;
/// Most tables that wait until their contents are in the store.
const MOST_WAITING: usize = 512;

/// How long new profiles wait for more.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// The directory is polled at least so often, in ms; inotify reports changes earlier, if it can.
const SAMPLE_EVERY: u16 = 5000;

/// The knowledge of a run.
pub struct Harvest {
    directory: PathBuf,
    store: Option<Store>,
    /// Not yet in the store,
    pending: Learnt,
    /// and where it is from: removed after it is written, so that a tek that is killed meanwhile
    /// leaves it to the next.
    waiting: HashSet<PathBuf>,
    /// Tables that cannot be removed, and must not be read again.
    stuck: HashSet<PathBuf>,
    /// Of the whole run.
    total: Learnt,
    written: Instant,
    reported: bool,
}

impl Harvest {
    /// For a run that measures stacks.
    pub fn of(tuning: Option<&Tuning>, run: &RunDirectory) -> Option<Self> {
        let tuning = tuning.filter(|tuning| tuning.is_on())?;
        Some(Self::new(run.path(), tuning.profiles.as_deref()))
    }

    /// In a run's directory; into a directory of profiles, if there is one.
    pub fn new(directory: &Path, profiles: Option<&Path>) -> Self {
        if let Some(profiles) = profiles {
            // Without it only the profiles of a killed tek are lost.
            let _ = note(&directory.join(PROFILES), profiles);
        }
        Self {
            directory: directory.to_owned(),
            store: profiles.map(Store::at),
            pending: Learnt::new(),
            waiting: HashSet::new(),
            stuck: HashSet::new(),
            total: Learnt::new(),
            written: Instant::now(),
            reported: false,
        }
    }

    /// Learns from the processes that have ended so far. There is more to do after the returned
    /// time.
    pub fn examine(&mut self) -> PollTimeout {
        let more = self.take_ended(MOST_AT_ONCE);
        let due = self.written.elapsed() >= WRITE_EVERY || self.waiting.len() >= MOST_WAITING;
        if !self.pending.is_empty() && due {
            self.write();
        }
        if more {
            return PollTimeout::ZERO;
        }
        let left = match self.pending.is_empty() {
            true => Duration::from_millis(SAMPLE_EVERY.into()),
            false => WRITE_EVERY.saturating_sub(self.written.elapsed()),
        };
        // Rounded up, so as not to wake just before the time.
        (left + Duration::from_millis(1)).try_into().unwrap_or(PollTimeout::from(SAMPLE_EVERY))
    }

    /// The program has ended: learns from the remaining tables, and returns all that was learnt.
    /// Tables of processes that live on stay.
    pub fn finish(mut self) -> Learnt {
        self.take_all();
        self.write();
        self.total
    }

    fn take_all(&mut self) {
        while self.take_ended(MOST_NAMES) {}
        for path in names(&self.directory) {
            let pid = name_of(&path).strip_suffix(".table").and_then(|pid| pid.parse().ok());
            if pid.is_some_and(|pid: i32| pid > 0 && !is_alive(pid)) {
                self.take(&path);
            }
        }
    }

    /// True if there are more.
    fn take_ended(&mut self, most: usize) -> bool {
        let mut ended: Vec<_> = names(&self.directory);
        ended.retain(|path| is_of_ended(name_of(path)) && !self.was_read(path));
        for path in ended.iter().take(most) {
            self.take(path);
        }
        ended.len() > most
    }

    fn was_read(&self, path: &Path) -> bool {
        self.waiting.contains(path) || self.stuck.contains(path)
    }

    /// The contents of a table are learnt once. Nothing is learnt from an inconsistent table.
    fn take(&mut self, path: &Path) {
        // Symbols are kept for this table only: there may be many programs, and the run may be
        // long.
        let read = Table::open(path)
            .and_then(|mut table| learn::from_table(&mut table, &mut Functions::default()));
        let Ok(Some((program, profile))) = read else { return self.remove(path) };
        learn::add(&mut self.total, &program, &profile);
        if self.store.is_none() {
            return self.remove(path);
        }
        if !learn::add(&mut self.pending, &program, &profile) {
            self.write();
            learn::add(&mut self.pending, &program, &profile);
        }
        self.waiting.insert(path.to_owned());
    }

    fn remove(&mut self, path: &Path) {
        match fs::remove_file(path) {
            // ENOENT: a process with a failed exec has taken its table back.
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.stuck.insert(path.to_owned());
            }
            _ => {}
        }
    }

    fn write(&mut self) {
        self.written = Instant::now();
        let pending = std::mem::take(&mut self.pending);
        let Some(store) = &self.store else { return };
        for (program, learnt) in &pending {
            match store.update(program, |profile| profile.merge(learnt)) {
                Ok(0) => {}
                Ok(dropped) if !self.reported => {
                    self.reported = true;
                    message::print(&format!(
                        "{} is full: {dropped} kinds of thread with the fewest threads are not in \
                         it",
                        store.path(program).display()
                    ));
                }
                Ok(_) => {}
                Err(error) if !self.reported => {
                    self.reported = true;
                    nothing_is_learnt(&error.to_string());
                }
                Err(_) => {}
            }
        }
        for path in std::mem::take(&mut self.waiting) {
            self.remove(&path);
        }
    }
}

fn note(path: &Path, profiles: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = fs::File::create_new(path)?;
    file.write_all(profiles.as_os_str().as_bytes())
}

/// Learns from the directory of a run before it is removed, if its tek was killed.
pub fn left_behind(directory: &Path) {
    let mut profiles = Vec::new();
    let read = open_own(&directory.join(PROFILES))
        .and_then(|file| file.take(4096).read_to_end(&mut profiles));
    if read.is_err() || profiles.is_empty() {
        return;
    }
    let profiles = PathBuf::from(std::ffi::OsString::from_vec(profiles));
    let mut harvest = Harvest::new(directory, None);
    // The killed tek has already reported problems with the store.
    (harvest.store, harvest.reported) = (Some(Store::at(profiles)), true);
    harvest.finish();
}

/// `PID-NUMBER.ended`.
fn is_of_ended(name: &str) -> bool {
    let numbers = name.strip_suffix(".ended").and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(pid, number)| is_number(pid) && is_number(number))
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.take(MOST_NAMES).map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_left_directory_instead_of_a_file_stops_no_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in [PROFILES, "5-1.ended", "2147483647.table"] {
            nix::unistd::mkfifo(&path(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        left_behind(directory.path());
        fs::remove_file(path(PROFILES)).unwrap();
        fs::write(path(PROFILES), directory.path().as_os_str().as_bytes()).unwrap();
        left_behind(directory.path());
        assert!(!path("5-1.ended").exists() && !path("2147483647.table").exists());
    }
}
