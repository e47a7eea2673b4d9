// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that tekd may change: the whole device, cgroups, or trees of processes.
use crate::originals::Originals;
use crate::process::{self, Status};
use std::fmt;
use std::str::FromStr;
use tek_effect::Identity;
use tek_policy::Pattern;

/// The longest chain of parents: a longer one changed while it was read.
const MOST_PARENTS: usize = 4096;

/// One `--domain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All processes but the protected ones.
    Device,
    /// A cgroup, with those beneath it, but without the protected processes.
    Cgroup(String),
    /// A process, and its descendants. It was named, so it is not protected.
    Tree(Identity),
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write device, cgroup:/PATH as in /proc/PID/cgroup, or pid:PID";
        match text.split_once(':') {
            None if text == "device" => Ok(Self::Device),
            Some(("cgroup", path)) if path.starts_with('/') => {
                Ok(Self::Cgroup(path.trim_end_matches('/').to_owned()))
            }
            Some(("pid", pid)) => {
                let pid = pid.parse().map_err(|_| form.to_owned())?;
                Identity::of(pid).map(Self::Tree).map_err(|error| error.to_string())
            }
            _ => Err(form.to_owned()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("device"),
            Self::Cgroup(path) => write!(f, "cgroup:{path}/"),
            Self::Tree(root) => write!(f, "pid:{}", root.tid),
        }
    }
}

/// Why tekd must not change a process. Sentences that fit into a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// There is no such process.
    Gone,
    /// Process 1, or tekd.
    Never,
    /// A kernel thread.
    Kernel,
    /// It started tekd.
    Ancestor,
    /// Its name is in the list of protected processes.
    Protected,
    /// It is in no part of the domain.
    Elsewhere,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "there is no such thread",
            Self::Never => "tekd never touches process 1 and itself",
            Self::Kernel => "tekd does not touch threads of the kernel",
            Self::Ancestor => "tekd does not touch the processes that started it",
            Self::Protected => "this process is protected in tekd.toml",
            Self::Elsewhere => "this process is outside tekd's domain (tekd --domain)",
        })
    }
}

/// All parts of the domain.
#[derive(Clone)]
pub struct Domain {
    parts: Vec<Part>,
    own: i32,
    ancestors: Vec<i32>,
}

impl Domain {
    /// The domain with these parts; without a part: the whole device.
    pub fn new(mut parts: Vec<Part>) -> Self {
        if parts.is_empty() {
            parts.push(Part::Device);
        }
        let own = std::process::id().try_into().unwrap_or(0);
        Self { parts, own, ancestors: parents(own).skip(1).map(|(pid, _)| pid).collect() }
    }

    /// The parts, as text.
    pub fn parts(&self) -> impl Iterator<Item = String> + '_ {
        self.parts.iter().map(ToString::to_string)
    }

    /// Whether a part is a cgroup.
    pub fn names_cgroups(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Cgroup(_)))
    }

    /// Whether a process of the domain can be outside later.
    pub fn can_be_left(&self) -> bool {
        !self.parts.contains(&Part::Device)
    }

    /// Whether a process can enter it without a parent in it.
    pub fn has_newcomers(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Tree(_)))
    }

    /// Whether tekd may change a process; `originals` has the original cgroups of moved processes.
    pub fn check(
        &self,
        pid: i32,
        protected: &[Pattern],
        originals: &Originals,
    ) -> Result<(), Outside> {
        if pid == 1 {
            return Err(Outside::Never);
        }
        let status = Status::of(pid).map_err(|_| Outside::Gone)?;
        self.check_known(pid, &status, protected, originals)
    }

    /// The same for a process whose status was read already.
    pub fn check_known(
        &self,
        pid: i32,
        status: &Status,
        protected: &[Pattern],
        originals: &Originals,
    ) -> Result<(), Outside> {
        if pid == 1 || pid == self.own {
            return Err(Outside::Never);
        }
        // A process with memory is no kernel thread.
        if !status.has_memory() && process::is_of_kernel(pid) {
            return Err(Outside::Kernel);
        }
        if self.parts.iter().any(|part| part.is_tree_of(pid, status)) {
            return Ok(());
        }
        if !self.parts.iter().any(|part| part.is_around(pid, originals)) {
            return Err(Outside::Elsewhere);
        }
        if self.ancestors.contains(&pid) {
            return Err(Outside::Ancestor);
        }
        match protected.iter().any(|pattern| pattern.matches_process(status.name())) {
            true => Err(Outside::Protected),
            false => Ok(()),
        }
    }
}

impl Part {
    fn is_tree_of(&self, pid: i32, status: &Status) -> bool {
        let Self::Tree(root) = self else { return false };
        let is_root = |pid: i32| pid == root.tid;
        let is_within = is_root(pid)
            || status.parent().is_some_and(|parent| {
                is_root(parent) || parents(parent).any(|(parent, _)| is_root(parent))
            });
        is_within && root.check_process().is_ok()
    }

    fn is_around(&self, pid: i32, originals: &Originals) -> bool {
        match self {
            Self::Device => true,
            Self::Cgroup(path) => originals.cgroups(pid).iter().any(|cgroup| {
                cgroup
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
            Self::Tree(_) => false,
        }
    }
}

/// A process, its parent, and so on.
fn parents(pid: i32) -> impl Iterator<Item = (i32, Status)> {
    let with_status = |pid: i32| Some((pid, Status::of(pid).ok()?));
    std::iter::successors(with_status(pid), move |(_, status)| {
        with_status(status.parent().filter(|&parent| parent > 0)?)
    })
    .take(MOST_PARENTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn own_pid() -> i32 {
        std::process::id().try_into().unwrap()
    }

    #[test]
    fn what_is_no_part_of_a_device_is_refused() {
        for bad in ["", "x", "pid:", "pid:x", "pid:-1", "cgroup:", "cgroup:x", "device:", "pid:0"] {
            assert!(bad.parse::<Part>().is_err(), "{bad:?} was taken");
        }
        let own = format!("pid:{}", own_pid());
        assert_eq!(own.parse::<Part>().unwrap().to_string(), own);
        assert_eq!("cgroup:/a/b/".parse(), Ok(Part::Cgroup("/a/b".to_owned())));
    }

    #[test]
    fn a_tree_has_what_its_root_started_and_no_more() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().try_into().unwrap();
        let tree = Domain::new(vec![format!("pid:{pid}").parse().unwrap()]);
        assert_eq!(tree.check(pid, &[], &Originals::default()), Ok(()));
        let parent = parents(own_pid()).nth(1).unwrap().0;
        assert!([Outside::Elsewhere, Outside::Never]
            .contains(&tree.check(parent, &[], &Originals::default()).unwrap_err()));
        let own = Domain::new(vec![format!("pid:{}", own_pid()).parse().unwrap()]);
        assert_eq!(own.check(pid, &[], &Originals::default()), Ok(()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(own.check(pid, &[], &Originals::default()), Err(Outside::Gone));
    }

    #[test]
    fn some_are_never_touched() {
        let device = Domain::new(Vec::new());
        assert_eq!(device.check(1, &[], &Originals::default()), Err(Outside::Never));
        assert_eq!(device.check(own_pid(), &[], &Originals::default()), Err(Outside::Never));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().try_into().unwrap();
        // Until it executes `sleep` it has the name of this program.
        while Status::of(pid).unwrap().name() != "sleep" {}
        assert_eq!(device.check(pid, &[], &Originals::default()), Ok(()));
        let protected = [Pattern::new("sl*p").unwrap()];
        assert_eq!(device.check(pid, &protected, &Originals::default()), Err(Outside::Protected));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(&parent) = device.ancestors.iter().find(|&&pid| pid != 1) {
            assert_eq!(device.check(parent, &[], &Originals::default()), Err(Outside::Ancestor));
        }
    }

    #[test]
    fn a_cgroup_has_those_beneath_it() {
        let around =
            |path: &str| Part::Cgroup(path.to_owned()).is_around(own_pid(), &Originals::default());
        assert!(around(""));
        for path in process::cgroups(own_pid()).iter().filter(|path| *path != "/") {
            assert!(around(path));
            assert!(!around(&format!("{path}x")));
        }
    }
}
