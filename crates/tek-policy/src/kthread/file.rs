// SPDX-License-Identifier: MIT OR Apache-2.0
//! `[kthreads]` of tekd.toml: whether and how the kernel's threads follow their waiters.
use super::Class;
use crate::dependency::{Method, Weight};
use crate::grant_subject::Pattern;
use crate::number::number;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::time::Duration;

/// `[kthreads]`; without it no kernel thread is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct KthreadSettings {
    /// The method that computes their priorities.
    pub method: Method,
    /// The time for which a task still counts after its wait ends.
    pub linger: Duration,
    /// The maximum number of changed priorities in a second.
    pub changes_per_second: u32,
    /// The real-time priority of the thread that changes them.
    pub priority: u32,
    /// The weight of each class.
    pub weights: ClassWeights,
    /// The weights of single work functions, which override the weight of the class.
    pub functions: BTreeMap<String, Weight>,
    /// Classes that are not changed.
    pub off: Vec<Class>,
    /// Names of kernel threads that are not changed.
    pub protected: Vec<Pattern>,
}

impl Default for KthreadSettings {
    fn default() -> Self {
        Self {
            method: Method::default(),
            linger: Duration::from_millis(20),
            changes_per_second: 1000,
            // Above all its beneficiaries, and below watchdogs.
            priority: 98,
            weights: ClassWeights::default(),
            functions: BTreeMap::new(),
            off: Vec::new(),
            protected: Vec::new(),
        }
    }
}

impl KthreadSettings {
    /// The weight of a kernel thread by its class and, for a worker, the function of its work.
    /// `None`: the thread is not changed.
    pub fn weight_of(&self, class: Class, function: Option<&str>) -> Option<Weight> {
        let of_class = self.weights.of(class).filter(|_| !self.off.contains(&class))?;
        Some(function.and_then(|function| self.of_function(function)).unwrap_or(of_class))
    }

    /// The weight of a function, also under the name that the compiler gave to a part of it.
    fn of_function(&self, function: &str) -> Option<Weight> {
        let whole = || function.split('.').next().and_then(|name| self.functions.get(name));
        self.functions.get(function).or_else(whole).copied()
    }

    /// Whether the name of a kernel thread excludes it from changes.
    pub fn protects(&self, name: &str) -> bool {
        self.protected.iter().any(|pattern| pattern.matches_process(name))
    }

    /// [`KthreadSettings::linger`] in ns.
    pub fn linger_ns(&self) -> u64 {
        u64::try_from(self.linger.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A description of the settings in whole lines.
impl fmt::Display for KthreadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.method {
            Method::Plain => "have the highest priority of the tasks that wait for them",
            Method::Weighted => {
                "have the mean priority of the tasks that wait for them, times a weight"
            }
        };
        writeln!(
            f,
            "Threads of the kernel {how}, and {} ms longer; at most {} changes a second.",
            self.linger.as_millis(),
            self.changes_per_second
        )?;
        if self.method == Method::Weighted {
            let is_on = |class: &Class| !self.off.contains(class);
            let weight = |class: Class| Some(format!("{class} {}", self.weights.of(class)?));
            let of_classes = Class::NAMED.into_iter().filter(is_on).filter_map(weight);
            let of_functions =
                self.functions.iter().map(|(name, weight)| format!("{name} {weight}"));
            let weights: Vec<_> = of_classes.chain(of_functions).collect();
            writeln!(f, "Their weights: {}.", list(&weights))?;
        }
        if !self.off.is_empty() {
            writeln!(f, "Unchanged: all of {}.", list(&self.off))?;
        }
        match self.protected.is_empty() {
            true => Ok(()),
            false => writeln!(f, "Unchanged: threads named {}.", list(&self.protected)),
        }
    }
}

/// The items separated by commas, or "none".
fn list(all: &[impl fmt::Display]) -> String {
    let mut text = String::new();
    for one in all {
        let _ = write!(text, "{}{one}", if text.is_empty() { "" } else { ", " });
    }
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}

/// The weight of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassWeights {
    /// The weight of interrupt threads: 1.2 by default, as in the paper.
    pub irq: Weight,
    /// The weight of [`Class::Softirq`]: 1.2 by default.
    pub softirq: Weight,
    /// The weight of [`Class::Writeback`]: 0.8 by default, as in all fields below.
    pub writeback: Weight,
    /// The weight of [`Class::Reclaim`].
    pub kswapd: Weight,
    /// The weight of [`Class::Compaction`].
    pub kcompactd: Weight,
    /// The weight of workers whose work is no writeback.
    pub worker: Weight,
    /// The weight of workers of io_uring.
    pub io_uring: Weight,
    /// The weight of [`Class::Creator`].
    pub kthreadd: Weight,
    /// The weight of [`Class::Holder`].
    pub holder: Weight,
}

impl Default for ClassWeights {
    fn default() -> Self {
        Self {
            irq: Weight::DIRECT,
            softirq: Weight::DIRECT,
            writeback: Weight::INDIRECT,
            kswapd: Weight::INDIRECT,
            kcompactd: Weight::INDIRECT,
            worker: Weight::INDIRECT,
            io_uring: Weight::INDIRECT,
            kthreadd: Weight::INDIRECT,
            holder: Weight::INDIRECT,
        }
    }
}

impl ClassWeights {
    /// `None`: such threads are never changed.
    pub fn of(&self, class: Class) -> Option<Weight> {
        Some(match class {
            Class::Irq => self.irq,
            Class::Softirq => self.softirq,
            Class::Writeback => self.writeback,
            Class::Reclaim => self.kswapd,
            Class::Compaction => self.kcompactd,
            Class::Worker => self.worker,
            Class::IoUring => self.io_uring,
            Class::Creator => self.kthreadd,
            Class::Holder => self.holder,
            Class::Untouchable | Class::Unknown => return None,
        })
    }
}

/// `[kthreads]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KthreadsTable {
    #[serde(default)]
    method: Method,
    #[serde(default, deserialize_with = "linger_ms")]
    linger_ms: Option<u32>,
    #[serde(default, deserialize_with = "changes_per_second")]
    changes_per_second: Option<u32>,
    #[serde(default, deserialize_with = "priority")]
    priority: Option<u32>,
    #[serde(default)]
    weights: ClassWeights,
    #[serde(default)]
    functions: BTreeMap<FunctionName, Weight>,
    #[serde(default)]
    off: Vec<Class>,
    #[serde(default)]
    protected: Vec<Pattern>,
}

impl From<KthreadsTable> for KthreadSettings {
    fn from(table: KthreadsTable) -> Self {
        let usual = Self::default();
        let linger = table.linger_ms.map(|ms| Duration::from_millis(ms.into()));
        Self {
            method: table.method,
            linger: linger.unwrap_or(usual.linger),
            changes_per_second: table.changes_per_second.unwrap_or(usual.changes_per_second),
            priority: table.priority.unwrap_or(usual.priority),
            weights: table.weights,
            functions: table.functions.into_iter().map(|(name, weight)| (name.0, weight)).collect(),
            off: table.off,
            protected: table.protected,
        }
    }
}

/// Reads the table, and rejects a list of tables, which serde would read in the order of the keys.
pub(crate) fn table<'de, D>(from: D) -> Result<Option<KthreadsTable>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Table;
    impl<'de> Visitor<'de> for Table {
        type Value = KthreadsTable;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table: write [kthreads], in single brackets, above its keys")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KthreadsTable, A::Error> {
            KthreadsTable::deserialize(MapAccessDeserializer::new(map))
        }
    }
    from.deserialize_map(Table).map(Some)
}

/// A function of the kernel under its name in /proc/kallsyms.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FunctionName(String);

impl<'de> Deserialize<'de> for FunctionName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        let is_number = name.starts_with(|c: char| c.is_ascii_digit());
        match (1..512).contains(&name.len()) && name.chars().all(fits) && !is_number {
            true => Ok(Self(name)),
            false => Err(D::Error::custom(format!(
                "`{name}` is no function of the kernel: write its name as /proc/kallsyms has it, \
                 as in wb_workfn = 1.2"
            ))),
        }
    }
}

fn linger_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 0, 1000, "is no time to linger, in ms")
}

fn changes_per_second<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 1, 100_000, "is no number of changes a second")
}

fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    number(from, 1, 99, "is no real-time priority")
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
