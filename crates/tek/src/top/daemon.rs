// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status of tekd, without ever waiting long for it.
use crate::asker::Asker;
use crate::daemon::Error;
use crate::status;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tek_policy::Group;

/// The longest wait for an answer where a later one is shown at the next sample.
pub const BETWEEN_SAMPLES: Duration = Duration::from_millis(50);

/// The longest wait where no sample follows: a busy machine delays this process, too.
pub const AT_LAST: Duration = Duration::from_secs(2);

/// tekd sleeps between requests, so it is not polled more often than people read.
const LEAST_BETWEEN: Duration = Duration::from_millis(900);

/// The answer of tekd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Daemon {
    /// It does not run.
    #[default]
    Absent,
    /// It runs, but gave no valid answer; or this user may not query it.
    Silent,
    /// Its status.
    Answer(Arc<Answer>),
}

/// Its status.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// `normal` or `responsiveness`.
    pub mode: String,
    /// Process and tid of the threads that are Fast by it.
    pub fast: HashSet<(u32, u32)>,
    /// Of real-time threads that it lowered below the Fast Region.
    pub lowered: HashSet<(u32, u32)>,
    /// The groups that threads are in, by tid, where its control groups are in force.
    pub groups: HashMap<u32, &'static str>,
}

/// The part of its status that is understood here. An older tekd does not report all of it.
#[derive(Deserialize)]
struct Reported {
    mode: String,
    fast: Vec<Thread>,
    #[serde(default)]
    lowered: Vec<Thread>,
    groups: Option<Groups>,
}

#[derive(Deserialize)]
struct Thread {
    pid: u32,
    tid: u32,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<InGroup>,
}

#[derive(Deserialize)]
struct InGroup {
    name: String,
    path: PathBuf,
}

impl Answer {
    fn of(answered: &Value) -> anyhow::Result<Self> {
        let reported = Reported::deserialize(answered)?;
        let set = |all: Vec<Thread>| all.iter().map(|one| (one.pid, one.tid)).collect();
        let groups = reported.groups.map(|groups| groups.groups).unwrap_or_default();
        Ok(Self {
            mode: reported.mode,
            fast: set(reported.fast),
            lowered: set(reported.lowered),
            groups: groups.iter().flat_map(members).collect(),
        })
    }
}

/// The threads of a group. tekd does not report them itself: there may be thousands. A thread in
/// none of these files has ended, or is Fast.
fn members(group: &InGroup) -> Vec<(u32, &'static str)> {
    let name = Group::ALL.into_iter().map(Group::name).find(|name| *name == group.name);
    // The files of version 1 and of version 2.
    let file = ["tasks", "cgroup.threads"]
        .into_iter()
        .find_map(|file| fs::read_to_string(group.path.join(file)).ok());
    let (Some(name), Some(file)) = (name, file) else { return Vec::new() };
    file.lines().filter_map(|tid| Some((tid.parse().ok()?, name))).collect()
}

/// Asks tekd.
pub struct Tekd {
    asker: Asker<Daemon>,
    patience: Duration,
}

impl Tekd {
    /// Starts the thread that queries it. `patience`: the longest wait for an answer.
    pub fn new(patience: Duration) -> std::io::Result<Self> {
        Ok(Self { asker: Asker::new(|| answer(status::now()))?, patience })
    }

    /// Queries it, unless that was done just now or the answer is still to come.
    pub fn ask(&mut self) {
        self.asker.ask(LEAST_BETWEEN);
    }

    /// Its answer, waiting as long after the question as its patience lasts.
    pub fn answer(&mut self) -> Daemon {
        self.asker.answer(self.patience).cloned().unwrap_or(Daemon::Silent)
    }
}

fn answer(answered: anyhow::Result<Value>) -> Daemon {
    match answered.and_then(|answered| Answer::of(&answered)) {
        Ok(latest) => Daemon::Answer(Arc::new(latest)),
        Err(error) => match error.downcast_ref() {
            Some(Error::NotThere(_)) => Daemon::Absent,
            _ => Daemon::Silent,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_daemon_is_no_failure() {
        let error = Error::NotThere("/nowhere".into());
        assert_eq!(answer(Err(error.into())), Daemon::Absent);
        assert_eq!(answer(Err(anyhow::anyhow!("nonsense"))), Daemon::Silent);
        assert_eq!(answer(Ok(json!({"mode": 1}))), Daemon::Silent);
    }

    #[test]
    fn lowered_threads_and_groups_are_read_from_its_report() {
        let directory = tempfile::tempdir().unwrap();
        for (name, file, tids) in [
            ("one", "tasks", "11\n12\n"),
            ("two", "cgroup.threads", "13\n"),
            ("three", "x", "14\n"),
        ] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join(file), tids).unwrap();
        }
        let group = |name: &str, path: &str| {
            let path = directory.path().join(path);
            json!({"name": name, "path": path, "weight": 1})
        };
        let answered = json!({
            "mode": "responsiveness",
            "fast": [{"pid": 1, "tid": 2, "more": 3}],
            "lowered": [{"pid": 4, "tid": 5}],
            "groups": {"groups": [group("normal", "one"), group("service", "two"),
                                  group("urgent", "three"), group("other", "one")]},
        });
        let wanted = Answer {
            mode: "responsiveness".into(),
            fast: HashSet::from([(1, 2)]),
            lowered: HashSet::from([(4, 5)]),
            groups: HashMap::from([(11, "normal"), (12, "normal"), (13, "service")]),
        };
        assert_eq!(Answer::of(&answered).unwrap(), wanted);
    }
}
