// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backends and groups of tekd.toml: the backend that makes threads Fast, the groups, and the
//! processes in each group.
use crate::grant_subject::{paths, Pattern, User};
use crate::rule::Group;
use crate::weights::{Floor, Weight, Weights};
use serde::de::{Deserializer, Error};
use serde::Deserialize;
use std::fmt;

/// The backend that makes threads Fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// `rt` where tekd may make threads real-time, else `fair`.
    #[default]
    Auto,
    /// Fast threads are real-time; real-time threads that are not critical wait beneath them.
    Rt,
    /// Fast threads are in a group of great weight.
    Fair,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Rt => "rt",
            Self::Fair => "fair",
        })
    }
}

/// `[groups]`: which groups there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Their weights, and the floor.
    pub weights: Weights,
    /// The control group beneath which they are made, as /proc/PID/cgroup names it; `None`: one is
    /// found.
    pub below: Option<String>,
    /// The name of the control group that has all of them.
    pub name: String,
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self { weights: Weights::default(), below: None, name: "tek".to_owned() }
    }
}

/// One `[[place]]`: which processes it means, and the group that they are in.
#[derive(Clone, Debug, PartialEq)]
pub struct Placing {
    /// Where it is written.
    pub source: String,
    /// The group.
    pub group: Group,
    /// Names of processes; none: any.
    pub names: Vec<Pattern>,
    /// Users; none: any user.
    pub users: Vec<User>,
    /// Paths of control groups; none: any.
    pub cgroups: Vec<Pattern>,
}

/// A process that is to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// As in /proc/PID/comm.
    pub name: String,
    /// Effective user.
    pub uid: u32,
    /// Whether its user sits at the device.
    pub active: bool,
    /// Paths of its control groups, one a hierarchy, as they were before it was placed.
    pub cgroups: Vec<String>,
}

impl Placing {
    /// Whether it means this process: of each kind that it names one must fit.
    pub fn is_for(&self, owner: &Resident) -> bool {
        let cgroup = |pattern: &Pattern| owner.cgroups.iter().any(|cgroup| pattern.matches(cgroup));
        (self.names.is_empty() || self.names.iter().any(|name| name.matches_process(&owner.name)))
            && (self.users.is_empty()
                || self.users.iter().any(|user| user.is(owner.uid, owner.active)))
            && (self.cgroups.is_empty() || self.cgroups.iter().any(cgroup))
    }
}

/// `[groups]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupsTable {
    urgent: Option<Weight>,
    normal: Option<Weight>,
    service: Option<Weight>,
    background: Option<Weight>,
    floor: Option<Floor>,
    #[serde(default, deserialize_with = "group_path")]
    below: Option<String>,
    #[serde(default, deserialize_with = "group_name")]
    name: Option<String>,
}

impl From<GroupsTable> for GroupSettings {
    fn from(table: GroupsTable) -> Self {
        let usual = Self::default();
        let weights = Weights {
            urgent: table.urgent.unwrap_or(usual.weights.urgent),
            normal: table.normal.unwrap_or(usual.weights.normal),
            service: table.service.unwrap_or(usual.weights.service),
            background: table.background.unwrap_or(usual.weights.background),
            floor: table.floor.unwrap_or(usual.weights.floor),
        };
        Self { weights, below: table.below, name: table.name.unwrap_or(usual.name) }
    }
}

/// `[[place]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceTable {
    group: Group,
    #[serde(default)]
    names: Vec<Pattern>,
    #[serde(default)]
    users: Vec<User>,
    #[serde(default, deserialize_with = "paths")]
    cgroups: Vec<Pattern>,
}

impl PlaceTable {
    /// The rule, or what is wrong with the whole of it.
    pub fn into_placing(self, source: String) -> Result<Placing, String> {
        let Self { group, names, users, cgroups } = self;
        if names.is_empty() && users.is_empty() && cgroups.is_empty() {
            return Err("say which processes are placed: names, users or cgroups; \
                        users = [\"*\"] is every user"
                .to_owned());
        }
        Ok(Placing { source, group, names, users, cgroups })
    }
}

fn group_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let path = String::deserialize(from)?;
    let is_path = path.starts_with('/') && !path.split('/').any(|part| [".", ".."].contains(&part));
    match is_path && !path.contains(char::is_control) {
        true if path.len() > 1 => Ok(Some(path.trim_end_matches('/').to_owned())),
        true => Ok(Some(path)),
        false => Err(D::Error::custom(format!(
            "`{path}` is no control group: write it as /proc/PID/cgroup does, as in \"/app.slice\""
        ))),
    }
}

fn group_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    // The kernel's own files in a group have such names.
    let is_taken = ["cgroup.", "cpu."].iter().any(|prefix| name.starts_with(prefix));
    match (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !is_taken {
        true if ![".", ".."].contains(&name.as_str()) => Ok(Some(name)),
        _ => Err(D::Error::custom(format!(
            "`{name}` is no name for a control group: write letters, digits, \"_\", \"-\", \".\" \
             or \"@\", at most 64"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::grant_file::{read_configuration, Configuration};
    use crate::{Backend, Group, Resident};

    fn read(text: &str) -> Configuration {
        read_configuration(text, "tekd.toml").unwrap()
    }

    fn complaint(text: &str) -> String {
        read_configuration(text, "tekd.toml").unwrap_err().to_string()
    }

    fn resident(name: &str, uid: u32) -> Resident {
        Resident { name: name.to_owned(), uid, ..Resident::default() }
    }

    #[test]
    fn without_a_word_there_are_no_groups_and_the_backend_is_found() {
        let usual = read("");
        assert_eq!((usual.backend, &usual.groups), (Backend::Auto, &None));
        assert!(usual.places.is_empty());
        assert_eq!(read("backend = \"rt\"").backend, Backend::Rt);
        assert_eq!(read("backend = \"fair\"").backend, Backend::Fair);
        assert!(complaint("backend = \"scx\"").contains("tekd.toml:1:11"));
    }

    #[test]
    fn the_table_of_groups_has_weights_and_a_place() {
        let usual = read("[groups]").groups.unwrap();
        assert_eq!(usual, super::GroupSettings::default());
        let text = "[groups]\nurgent = 800\nfloor = 10\nbelow = \"/app.slice/\"\nname = \"tek-7\"";
        let groups = read(text).groups.unwrap();
        assert_eq!((groups.weights.urgent.weight(), groups.weights.floor.percent()), (800, 10));
        assert_eq!((groups.below.as_deref(), groups.name.as_str()), (Some("/app.slice"), "tek-7"));
        assert_eq!(read("[groups]\nbelow = \"/\"").groups.unwrap().below.as_deref(), Some("/"));
    }

    #[test]
    fn what_is_no_place_for_groups_is_refused() {
        for bad in [
            "below = \"app\"",
            "below = \"/a/../b\"",
            "name = \"a/b\"",
            "name = \"\"",
            "name = \"..\"",
            "name = \"cpu.shares\"",
            "floor = 0",
            "urgent = 10001",
            "lazy = 1",
        ] {
            let reported = complaint(&format!("[groups]\n{bad}"));
            assert!(reported.starts_with("tekd.toml:2:"), "{bad}: {reported}");
        }
        assert!(complaint("[[groups]]\nfloor = 5").starts_with("tekd.toml:1:"));
    }

    #[test]
    fn the_first_place_that_fits_decides() {
        let configuration = read(
            "[groups]\n[[place]]\ngroup = \"service\"\nnames = [\"cron*\", \"atd\"]\n\
             [[place]]\ngroup = \"background\"\nusers = [33]\n\
             [[place]]\ngroup = \"urgent\"\nusers = [33]\nnames = [\"ui\"]",
        );
        let group =
            |name, uid| configuration.place_for(&resident(name, uid)).map(|place| place.group);
        assert_eq!(group("crond", 0), Some(Group::Service));
        assert_eq!(group("atd", 33), Some(Group::Service));
        assert_eq!(group("ui", 33), Some(Group::Background));
        assert_eq!(group("ui", 0), None);
        assert_eq!(configuration.places[0].source, "tekd.toml:2");
    }

    #[test]
    fn a_place_needs_what_it_matches_and_its_group() {
        assert!(complaint("[groups]\n[[place]]\ngroup = \"normal\"").contains("names, users"));
        assert!(complaint("[groups]\n[[place]]\nnames = [\"x\"]").contains("group"));
        assert!(complaint("[[place]]\ngroup = \"normal\"\nnames = [\"x\"]").contains("[groups]"));
        assert!(complaint("[groups]\n[place]\ngroup = \"normal\"").contains("[["));
    }
}
