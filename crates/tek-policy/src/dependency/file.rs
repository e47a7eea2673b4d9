// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[inherit]` of tekd.toml: whether threads inherit the priority of critical threads that wait for
//! them.
use crate::number::number;
use crate::Budget;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// `[inherit]`. Without the table, all of it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritSettings {
    /// The owner of a lock is lifted.
    pub locks: bool,
    /// The thread that is to answer is lifted.
    pub answers: bool,
    /// The longest time of a lift for one answer.
    pub max_wait: Duration,
    /// The CPU time of each lifted thread.
    pub budget: Budget,
}

impl InheritSettings {
    /// Nothing is inherited.
    pub const OFF: Self = Self {
        locks: false,
        answers: false,
        max_wait: Duration::from_millis(50),
        budget: Budget::Off,
    };

    /// Whether a thread can be lifted.
    pub fn is_on(&self) -> bool {
        self.locks || self.answers
    }

    /// [`InheritSettings::max_wait`] in ns.
    pub fn max_wait_ns(&self) -> u64 {
        u64::try_from(self.max_wait.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Default for InheritSettings {
    fn default() -> Self {
        let (cpu, window) = (Duration::from_millis(80), Duration::from_millis(100));
        Self { locks: true, answers: true, budget: Budget::Limit { cpu, window }, ..Self::OFF }
    }
}

/// A description of the settings in whole lines.
impl fmt::Display for InheritSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.locks, self.answers) {
            (true, true) => "own a lock, or are to answer",
            (true, false) => "own a lock",
            (false, true) => "are to answer",
            (false, false) => return writeln!(f, "No thread is lifted for its waiters."),
        };
        writeln!(f, "Threads that {what} are lifted while a critical thread waits for them.")?;
        if self.answers {
            let ms = self.max_wait.as_millis();
            writeln!(f, "A lift for an answer ends after {ms} ms.")?;
        }
        match self.budget {
            Budget::Off => writeln!(f, "Their CPU time is not limited."),
            budget => writeln!(f, "Each may use {budget} of CPU time while it is lifted."),
        }
    }
}

/// `[inherit]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InheritTable {
    locks: Option<bool>,
    answers: Option<bool>,
    #[serde(default, deserialize_with = "max_wait_ms")]
    max_wait_ms: Option<u32>,
    budget: Option<Budget>,
}

impl From<InheritTable> for InheritSettings {
    fn from(table: InheritTable) -> Self {
        let usual = Self::default();
        let max_wait = table.max_wait_ms.map(|ms| Duration::from_millis(ms.into()));
        Self {
            locks: table.locks.unwrap_or(usual.locks),
            answers: table.answers.unwrap_or(usual.answers),
            max_wait: max_wait.unwrap_or(usual.max_wait),
            budget: table.budget.unwrap_or(usual.budget),
        }
    }
}

/// Reads the table, and rejects a list of tables, which serde would read in the order of the keys.
pub(crate) fn table<'de, D>(from: D) -> Result<Option<InheritTable>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Table;
    impl<'de> Visitor<'de> for Table {
        type Value = InheritTable;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table: write [inherit], in single brackets, above its keys")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<InheritTable, A::Error> {
            InheritTable::deserialize(MapAccessDeserializer::new(map))
        }
    }
    from.deserialize_map(Table).map(Some)
}

fn max_wait_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 1, 10_000, "is no longest wait, in ms")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_configuration;

    fn read(text: &str) -> Result<InheritSettings, String> {
        let read = read_configuration(text, "tekd.toml");
        read.map(|read| read.inherit).map_err(|error| error.to_string())
    }

    #[test]
    fn all_is_on_without_the_table_and_off_by_its_keys() {
        assert_eq!(read(""), Ok(InheritSettings::default()));
        assert_eq!(read("[inherit]"), Ok(InheritSettings::default()));
        let off = read("[inherit]\nlocks = false\nanswers = false").unwrap();
        assert!(!off.is_on() && off.to_string().contains("No thread"));
        let only = read("[inherit]\nanswers = false").unwrap();
        assert!(only.locks && only.is_on() && !only.answers);
    }

    #[test]
    fn times_are_read() {
        let text = "[inherit]\nmax_wait_ms = 7\nbudget = \"10ms/50ms\"";
        let settings = read(text).unwrap();
        assert_eq!(settings.max_wait_ns(), 7_000_000);
        assert!(settings.to_string().contains("7 ms") && settings.to_string().contains("50ms"));
        assert_eq!(read("[inherit]\nbudget = \"off\"").unwrap().budget, Budget::Off);
    }

    #[test]
    fn mistakes_are_refused_with_their_place() {
        for bad in [
            "[[inherit]]",
            "[inherit]\nlock = true",
            "[inherit]\nmax_wait_ms = 0",
            "[inherit]\nmax_wait_ms = 10001",
            "[inherit]\nbudget = \"2s/1s\"",
        ] {
            assert!(read(bad).unwrap_err().contains("tekd.toml:"), "{bad}");
        }
    }
}
