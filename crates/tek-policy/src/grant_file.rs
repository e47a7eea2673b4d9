// SPDX-License-Identifier: MIT OR Apache-2.0
//! tekd.toml: the configuration of tekd, read with the place of every mistake.
use crate::dependency::{self, InheritSettings, InheritTable};
use crate::grant::{Grant, RealTime, Refusal, Requester, Terms};
use crate::grant_subject::{paths, Group, Pattern, User};
use crate::kthread::{self, KthreadSettings, KthreadsTable};
use crate::number::number;
use crate::placing::{Backend, GroupSettings, GroupsTable, PlaceTable, Placing, Resident};
use crate::source::Source;
use crate::{Budget, Error, Priority, Reason};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use toml::Spanned;

/// The content of tekd.toml; without a file the default.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// In their order: the first that fits decides.
    pub grants: Vec<Grant>,
    /// The priorities that are handed out.
    pub real_time: RealTime,
    /// All critical threads are demoted after ordinary threads did not run for so many s; 0: never.
    pub canary_seconds: u32,
    /// Names of processes that are never touched.
    pub protected: Vec<Pattern>,
    /// The backend that makes threads Fast.
    pub backend: Backend,
    /// The groups, if all processes are to be placed in groups.
    pub groups: Option<GroupSettings>,
    /// The group for each process, in their order: the first that fits decides.
    pub places: Vec<Placing>,
    /// How the kernel's threads follow the tasks that wait on them, if they do.
    pub kthreads: Option<KthreadSettings>,
    /// Whether threads are lifted while a critical thread waits for them.
    pub inherit: InheritSettings,
}

impl Default for Configuration {
    fn default() -> Self {
        let grant = |user| Grant {
            source: "the defaults".to_owned(),
            users: vec![user],
            groups: Vec::new(),
            programs: Vec::new(),
            cgroups: Vec::new(),
            terms: Terms::default(),
        };
        Self {
            grants: vec![grant(User::Id(0)), grant(User::Active)],
            real_time: RealTime { low: 10, high: 49 },
            canary_seconds: 5,
            protected: ["watchdog*", "systemd*"].into_iter().filter_map(Pattern::new).collect(),
            backend: Backend::default(),
            groups: None,
            places: Vec::new(),
            kthreads: None,
            inherit: InheritSettings::default(),
        }
    }
}

impl Configuration {
    /// The grant for a process.
    pub fn grant_for(&self, owner: &Requester) -> Result<&Grant, Refusal> {
        self.grants.iter().find(|grant| grant.is_for(owner)).ok_or(Refusal::NoGrant(owner.uid))
    }

    /// The place for a process; `None`: no entry matches it.
    pub fn place_for(&self, owner: &Resident) -> Option<&Placing> {
        self.places.iter().find(|place| place.is_for(owner))
    }

    /// The users that grants name by their numbers.
    pub fn named_users(&self) -> impl Iterator<Item = u32> + '_ {
        let id = |user: &User| if let User::Id(uid) = user { Some(*uid) } else { None };
        self.grants.iter().flat_map(|grant| &grant.users).filter_map(id)
    }

    /// Whether it matters in which supplementary groups a process is.
    pub fn names_groups(&self) -> bool {
        self.grants.iter().any(|grant| !grant.groups.is_empty())
    }

    /// Whether it matters in which control groups a process is.
    pub fn names_cgroups(&self) -> bool {
        self.grants.iter().any(|grant| !grant.cgroups.is_empty())
            || self.places.iter().any(|place| !place.cgroups.is_empty())
    }

    /// Replaces names of users and groups by their numbers. Returns the names that no user or group
    /// has, in the order of the file: such a name grants nothing.
    pub fn resolve(
        &mut self,
        mut user_id: impl FnMut(&str) -> Option<u32>,
        mut group_id: impl FnMut(&str) -> Option<u32>,
    ) -> Vec<String> {
        let mut unknown = Vec::new();
        let mut find_users = |users: &mut Vec<User>, source: &str, unknown: &mut Vec<String>| {
            for user in users {
                let User::Name(name) = user else { continue };
                match user_id(name) {
                    Some(id) => *user = User::Id(id),
                    None => unknown.push(format!("{source}: there is no user {name}")),
                }
            }
        };
        for grant in &mut self.grants {
            find_users(&mut grant.users, &grant.source, &mut unknown);
            for group in &mut grant.groups {
                let Group::Name(name) = group else { continue };
                match group_id(name) {
                    Some(id) => *group = Group::Id(id),
                    None => unknown.push(format!("{}: there is no group {name}", grant.source)),
                }
            }
        }
        for place in &mut self.places {
            find_users(&mut place.users, &place.source, &mut unknown);
        }
        unknown
    }

    /// Grants programs that are named by a link as if they were named by their own paths, because
    /// the kernel reports only these. `behind` gives the files behind a pattern's links, or `None`
    /// where no file fits the pattern. Returns the patterns that no file fits.
    pub fn follow_links(
        &mut self,
        mut behind: impl FnMut(&Pattern) -> Option<Vec<PathBuf>>,
    ) -> Vec<String> {
        let mut without = Vec::new();
        for grant in &mut self.grants {
            for index in 0..grant.programs.len() {
                let pattern = &grant.programs[index];
                match behind(pattern) {
                    Some(files) => {
                        let files = files.iter().filter_map(|file| Pattern::of_path(file));
                        grant.programs.extend(files.collect::<Vec<_>>());
                    }
                    None => without.push(format!("{}: there is no file {pattern}", grant.source)),
                }
            }
        }
        without
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    grant: Option<Vec<Spanned<GrantTable>>>,
    #[serde(default, deserialize_with = "real_time")]
    real_time: Option<RealTime>,
    #[serde(default, deserialize_with = "canary_seconds")]
    canary_seconds: Option<u32>,
    protected: Option<Vec<Pattern>>,
    #[serde(default)]
    backend: Backend,
    groups: Option<GroupsTable>,
    #[serde(default)]
    place: Vec<Spanned<PlaceTable>>,
    #[serde(default, deserialize_with = "kthread::table")]
    kthreads: Option<KthreadsTable>,
    #[serde(default, deserialize_with = "dependency::table")]
    inherit: Option<InheritTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantTable {
    #[serde(default)]
    users: Vec<User>,
    #[serde(default)]
    groups: Vec<Group>,
    #[serde(default, deserialize_with = "paths")]
    programs: Vec<Pattern>,
    #[serde(default, deserialize_with = "paths")]
    cgroups: Vec<Pattern>,
    #[serde(default, deserialize_with = "threads")]
    threads: Option<u32>,
    #[serde(default, deserialize_with = "threads")]
    user_threads: Option<u32>,
    #[serde(default, deserialize_with = "priorities")]
    priorities: Option<(Priority, Priority)>,
    budget: Option<Budget>,
    #[serde(default, deserialize_with = "rate")]
    rate: Option<u32>,
    #[serde(default, deserialize_with = "rate")]
    burst: Option<u32>,
    #[serde(default)]
    limit: bool,
    #[serde(rename = "others")]
    other_users: Option<bool>,
}

impl GrantTable {
    /// The grant, or what is wrong with the whole of it.
    fn into_grant(self, source: String) -> Result<Grant, String> {
        let names_nobody = self.users.is_empty()
            && self.groups.is_empty()
            && self.programs.is_empty()
            && self.cgroups.is_empty();
        if names_nobody {
            return Err(
                "say which processes this grant is for: users, groups, programs or cgroups; \
                        users = [\"*\"] is every user"
                    .to_owned(),
            );
        }
        let usual = Terms::default();
        let (first, last) = self.priorities.unwrap_or((usual.first, usual.last));
        let rate = self.rate.unwrap_or(usual.rate);
        let terms = Terms {
            threads: self.threads.unwrap_or(usual.threads),
            user_threads: self.user_threads.unwrap_or(usual.user_threads),
            first,
            last,
            budget: self.budget.unwrap_or(usual.budget),
            rate,
            burst: self.burst.unwrap_or(rate),
            limit: self.limit,
            other_users: self.other_users,
        };
        let Self { users, groups, programs, cgroups, .. } = self;
        Ok(Grant { source, users, groups, programs, cgroups, terms })
    }
}

fn threads<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 0, 1024, "is no number of threads that can be granted")
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 1, 10_000, "is no rate or burst that can be granted")
}

fn canary_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 0, 3600, "is no time for the canary")
}

fn real_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RealTime>, D::Error> {
    let [low, high] = <[i64; 2]>::deserialize(from)?;
    let fits = |priority| u32::try_from(priority).ok().filter(|p| *p <= RealTime::HIGHEST);
    match (fits(low), fits(high)) {
        (Some(low), Some(high)) if 1 <= low && low <= high => Ok(Some(RealTime { low, high })),
        _ => Err(D::Error::custom(format!(
            "write the lowest and the highest real-time priority, as in [10, 49], from 1 to {}",
            RealTime::HIGHEST
        ))),
    }
}

fn priorities<'de, D>(from: D) -> Result<Option<(Priority, Priority)>, D::Error>
where
    D: Deserializer<'de>,
{
    let [first, last] = <[Priority; 2]>::deserialize(from)?;
    match first <= last {
        true => Ok(Some((first, last))),
        false => Err(D::Error::custom("write the best priority first, as in [-20, 19]")),
    }
}

/// Reads the text of tekd.toml. `file` is for messages and the grants' source.
pub fn read_configuration(text: impl AsRef<[u8]>, file: &str) -> Result<Configuration, Error> {
    let source = Source { bytes: text.as_ref(), file };
    let parsed: File = source.parse(&["grant", "place"])?;
    let usual = Configuration::default();
    let grants = match parsed.grant {
        None => usual.grants,
        Some(tables) => source.each(tables, GrantTable::into_grant)?,
    };
    // Without groups no process can be placed; backend fair always has groups.
    let without_groups = parsed.groups.is_none() && parsed.backend != Backend::Fair;
    if let Some(place) = parsed.place.first().filter(|_| without_groups) {
        let wrong =
            "there are no groups to place processes in: add a table [groups], or backend = \"fair\""
                .to_owned();
        return Err(source.error(place.span().start, Reason::Toml(wrong)));
    }
    Ok(Configuration {
        grants,
        real_time: parsed.real_time.unwrap_or(usual.real_time),
        canary_seconds: parsed.canary_seconds.unwrap_or(usual.canary_seconds),
        protected: parsed.protected.unwrap_or(usual.protected),
        backend: parsed.backend,
        groups: parsed.groups.map(GroupSettings::from),
        places: source.each(parsed.place, PlaceTable::into_placing)?,
        kthreads: parsed.kthreads.map(KthreadSettings::from),
        inherit: parsed.inherit.map_or(usual.inherit, InheritSettings::from),
    })
}
