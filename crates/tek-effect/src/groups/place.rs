// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of the groups: the cgroup hierarchy, the group above, and why no other place.
use crate::file::{self, check_path};
use crate::sys;
use crate::{Error, Hierarchy, Version};
use nix::unistd::{access, AccessFlags};
use std::fmt;
use std::path::{Path, PathBuf};

/// The name of the group that has all of them, unless another is given.
const NAME: &str = "tek";

/// While systemd runs there is this directory: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// A group of a hierarchy below which a tree of groups can be made, and the tree's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) within: Hierarchy,
    pub(crate) above: PathBuf,
    pub(crate) name: String,
    /// Another manager owns the groups outside of this one, so processes there stay.
    pub(crate) is_delegated: bool,
}

/// The place that was found, and the reasons against other places as text for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The place to use, if there is one.
    pub place: Option<Place>,
    /// Why another cannot be used: a sentence each, with what to do.
    pub refused: Vec<String>,
}

impl Place {
    /// Below the group with the directory `above`. This does not check whether groups can be there.
    pub fn new(within: Hierarchy, above: &Path, name: &str) -> Result<Self, Error> {
        within.group(above)?;
        let is_delegated = false;
        Self { within, above: above.to_owned(), name: String::new(), is_delegated }.named(name)
    }

    /// The same with another name than "tek", for one that is not the only one of the device.
    pub fn named(self, name: &str) -> Result<Self, Error> {
        if ["", "."].contains(&name) || name.contains('/') {
            let what = format!("\"{name}\" is no name of a group");
            return Err(Error::invalid(what, "give a name without \"/\""));
        }
        check_path(&self.above.join(name))?;
        Ok(Self { name: name.to_owned(), ..self })
    }

    /// Where this process can make groups with weights. A controller is in one hierarchy, so there
    /// is at most one place.
    ///
    /// `below` is a group as /proc/PID/cgroup names it ("/a/b") if the groups have to be beneath
    /// that; else they are beneath the topmost, or under systemd with version 2 beneath what was
    /// delegated to the unit that this process is of.
    pub fn find(below: Option<&str>) -> Result<Found, Error> {
        let mut found = Found { place: None, refused: Vec::new() };
        let v1 = Hierarchy::with("cpu")?.filter(|one| one.version() == Version::V1);
        let candidates = [
            (Hierarchy::unified()?, "version 2 is not mounted"),
            (v1, "no hierarchy of version 1 has the controller cpu"),
        ];
        for (within, missing) in candidates {
            let Some(within) = within else {
                found.refused.push(format!("cgroup {missing}"));
                continue;
            };
            match Self::in_hierarchy(&within, below) {
                Ok(place) => found.place = found.place.or(Some(place)),
                Err(why) => found.refused.push(why),
            }
        }
        Ok(found)
    }

    /// The directory of the tree.
    pub fn top(&self) -> PathBuf {
        self.above.join(&self.name)
    }

    fn in_hierarchy(within: &Hierarchy, below: Option<&str>) -> Result<Self, String> {
        let is_delegated = within.version() == Version::V2 && Path::new(SYSTEMD).is_dir();
        let own = within.directory_of(std::process::id() as i32).ok();
        let above = match below {
            Some(group) => within.directory(group).filter(|directory| directory.is_dir()),
            None if is_delegated => own.clone(),
            None => Some(within.mount_point().to_owned()),
        };
        let Some(above) = above else {
            let group = below.unwrap_or("of this process");
            return Err(format!(
                "the cgroup {group} cannot be seen below {}",
                within.mount_point().display()
            ));
        };
        let above = match below {
            None if is_delegated => delegated(&above).unwrap_or(above),
            _ => above,
        };
        let facts = Facts::of(within, &above, is_delegated);
        match facts.refusal(&above) {
            Some(why) => Err(why),
            None => Ok(Self { within: within.clone(), above, name: NAME.into(), is_delegated }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.within.version() == Version::V1 { 1 } else { 2 };
        write!(f, "cgroup version {version}, {}", self.top().display())
    }
}

/// The nearest group, itself or above, that systemd has delegated.
fn delegated(directory: &Path) -> Option<PathBuf> {
    let names = [c"user.delegate", c"trusted.delegate"];
    let is_delegated =
        |above: &&Path| names.iter().any(|name| sys::has_attribute(above, name, b"1"));
    directory.ancestors().find(is_delegated).map(Path::to_owned)
}

/// The facts that decide whether groups can be made below a group.
struct Facts {
    has_cpu: bool,
    has_cpuset: bool,
    is_writable: bool,
    /// systemd manages the hierarchy, and has not delegated this group.
    is_of_systemd: bool,
    /// The group has processes that would be between the groups and the rest of the device, and it
    /// is not delegated to this process.
    has_processes: bool,
}

impl Facts {
    fn of(within: &Hierarchy, above: &Path, under_systemd: bool) -> Self {
        let text = |name| file::read(&above.join(name)).unwrap_or_default();
        let words = |name| String::from_utf8_lossy(&text(name)).into_owned();
        let version = within.version();
        let controllers = match version {
            Version::V1 => within.key().replace(',', " "),
            Version::V2 => words("cgroup.controllers"),
        };
        let has = |name: &str| controllers.split_ascii_whitespace().any(|one| one == name);
        // The topmost group of all has no type, and processes do not hinder there.
        let is_topmost = !above.join("cgroup.type").exists();
        let is_delegated = under_systemd && delegated(above).is_some();
        Self {
            has_cpu: has("cpu"),
            has_cpuset: version == Version::V1 && has("cpuset"),
            is_writable: access(above, AccessFlags::W_OK).is_ok(),
            is_of_systemd: under_systemd && !is_delegated,
            has_processes: version == Version::V2
                && !is_topmost
                && !is_delegated
                && !text("cgroup.procs").is_empty(),
        }
    }

    /// Why not there, and what to do.
    fn refusal(&self, above: &Path) -> Option<String> {
        let at = above.display();
        if !self.has_cpu {
            return Some(format!(
                "{at} of cgroup version 2 has no controller cpu: it is in a hierarchy of version \
                 1, or the group above has not enabled it (cgroup.subtree_control)"
            ));
        }
        if self.has_cpuset {
            return Some(format!(
                "{at} has the controllers cpu and cpuset in one hierarchy, in which a new group \
                 takes no threads: mount them apart"
            ));
        }
        if self.is_of_systemd {
            return Some(format!(
                "{at} is systemd's: set Delegate=cpu in the unit whose processes are to be in \
                 groups, and name its group (below)"
            ));
        }
        if !self.is_writable {
            return Some(format!(
                "{at} cannot be written: run as root, have it delegated to this user, or mount it \
                 writable"
            ));
        }
        if self.has_processes {
            return Some(format!(
                "{at} has processes of its own, which may not be beside controlled groups: start \
                 them in a group of their own beneath"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::common::{ground::Ground, unified_groups, victim::Does, victim::Victim};
    use crate::{Effect, Groups, Identity};
    use std::fs;
    use tek_policy::{Group, Weights};

    const GOOD: Facts = Facts {
        has_cpu: true,
        has_cpuset: false,
        is_writable: true,
        is_of_systemd: false,
        has_processes: false,
    };

    #[test]
    fn each_refusal_has_its_cure() {
        let at = Path::new("/sys/fs/cgroup/a");
        assert_eq!(GOOD.refusal(at), None);
        let refusals = [
            (Facts { has_cpu: false, ..GOOD }, "no controller cpu"),
            (Facts { has_cpuset: true, ..GOOD }, "mount them apart"),
            (Facts { is_of_systemd: true, ..GOOD }, "Delegate=cpu"),
            (Facts { is_writable: false, ..GOOD }, "run as root"),
            (Facts { has_processes: true, ..GOOD }, "group of their own"),
        ];
        for (facts, reported) in refusals {
            let refusal = facts.refusal(at).unwrap();
            assert!(
                refusal.contains(reported) && refusal.contains("/sys/fs/cgroup/a"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn every_hierarchy_that_is_not_used_is_explained() {
        let found = Place::find(None).unwrap();
        let usable = usize::from(found.place.is_some());
        assert_eq!(usable + found.refused.len(), 2, "{found:?}");
        let elsewhere = Place::find(Some("/there/is/none")).unwrap();
        assert_eq!((elsewhere.place, elsewhere.refused.len()), (None, 2));
    }

    #[test]
    fn a_process_of_another_unit_is_not_moved_to_a_delegated_group() {
        let Some(mount) = unified_groups() else { return };
        let (ground, state) = (Ground::below(&mount), tempfile::tempdir().unwrap());
        let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
        let within = Hierarchy::unified().unwrap().unwrap();
        let place = Place::new(within, &ground.0, "tek").unwrap();
        let place = Place { is_delegated: true, ..place };
        let mut groups = Groups::open(&mut effect, &place, Weights::default()).unwrap();
        let count = effect.count();
        let victim = Victim::new(2, Does::Sleep);
        let process = Identity::of(victim.pid).unwrap();
        let error = groups.place_process(&mut effect, process, Group::Normal).unwrap_err();
        assert!(error.to_string().contains("which systemd looks after"), "{error}");
        assert_eq!(effect.count(), count);
        let beside = ground.0.join("beside");
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("cgroup.procs"), victim.pid.to_string()).unwrap();
        assert_eq!(groups.place_process(&mut effect, process, Group::Normal).unwrap().moved, 2);
        assert_eq!(groups.remove(&mut effect).failed, [""; 0]);
    }

    #[test]
    fn processes_of_a_delegated_group_make_room_and_get_back() {
        let Some(mount) = unified_groups() else { return };
        let (ground, state) = (Ground::below(&mount), tempfile::tempdir().unwrap());
        let (mut effect, _) = Effect::open(&state.path().join("state")).unwrap();
        let within = Hierarchy::unified().unwrap().unwrap();
        let place = Place::new(within.clone(), &ground.0, "tek").unwrap();
        let place = Place { is_delegated: true, ..place };
        let victims = [Victim::new(3, Does::Sleep), Victim::new(2, Does::Threads)];
        for victim in &victims {
            fs::write(ground.0.join("cgroup.procs"), victim.pid.to_string()).unwrap();
        }
        let is_at = |victim: &Victim| within.directory_of(victim.pid).unwrap();
        let mut groups = Groups::open(&mut effect, &place, Weights::default()).unwrap();
        assert_eq!(victims.each_ref().map(is_at), [(); 2].map(|()| ground.0.join("tek-outside")));
        let process = Identity::of(victims[0].pid).unwrap();
        assert_eq!(groups.place_process(&mut effect, process, Group::Urgent).unwrap().moved, 3);
        assert_eq!(is_at(&victims[0]), ground.0.join("tek/lazy/urgent"));
        assert_eq!(groups.remove(&mut effect).failed, [""; 0]);
        assert_eq!(victims.each_ref().map(is_at), [(); 2].map(|()| ground.0.clone()));
        assert_eq!((ground.groups().len(), effect.count()), (0, 0));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        let Some(within) = Hierarchy::all().unwrap().pop() else { return };
        let mount = within.mount_point().to_owned();
        for name in ["", ".", "..", "a/b", "/"] {
            assert!(Place::new(within.clone(), &mount, name).is_err(), "{name:?}");
        }
        assert!(Place::new(within.clone(), Path::new("/tmp"), "tek").is_err());
        assert_eq!(Place::new(within, &mount, "tek").unwrap().top(), mount.join("tek"));
    }
}
