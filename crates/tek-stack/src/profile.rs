// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of thread of one program, and measurements of their stacks.
use std::collections::BTreeMap;
use std::fmt;

/// Kinds that a profile has room for.
pub const MOST_KINDS: usize = 4096;

/// A place in a file that a program is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The build-id of the file, in hexadecimal; of one without, `@` and its name.
    pub module: String,
    /// Address in its ELF headers.
    pub offset: u64,
}

impl Place {
    /// Longest module that libtek.so has room for, in bytes.
    pub const MOST_BYTES: usize = 47;

    /// The module name of a file with this build-id, or else this path.
    pub fn module(build_id: &[u8], path: &[u8]) -> String {
        if !build_id.is_empty() {
            return build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        let mut end = name.len().min(Self::MOST_BYTES - 1);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        format!("@{}", &name[..end])
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.module, self.offset)
    }
}

/// The common name or role of the threads of a kind. Any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// They have none.
    #[default]
    None,
    /// Their name, each run of digits in it as one `#`.
    Name(Vec<u8>),
    /// Their role.
    Role(Vec<u8>),
}

impl Label {
    /// The label of threads with such names.
    pub fn of_name(name: &[u8]) -> Self {
        Self::Name(with_numbers_as(name, b"#"))
    }
}

/// A name with `number` for each run of digits: the common form of the names of a kind's threads,
/// such as worker-1 and worker-12. lib/stack/kind.c does the same, and tests/profiles/labels.txt
/// has the cases.
pub fn with_numbers_as(name: &[u8], number: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    let mut in_digits = false;
    for &byte in name {
        if !byte.is_ascii_digit() {
            text.push(byte);
        } else if !in_digits {
            text.extend(number);
        }
        in_digits = byte.is_ascii_digit();
    }
    text
}

/// Identifies a kind: its threads run the same function, were created at the same place, and have
/// the same label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Their function; for a std::thread the table of functions of its state, if it is known.
    pub function: Place,
    /// The place that creates them.
    pub caller: Option<Place>,
    /// Their label.
    pub label: Label,
}

/// The threads' function, and the place that creates them.
pub type Site<'a> = (&'a Place, Option<&'a Place>);

impl Key {
    /// The part of the key that is known when such a thread is created.
    pub fn site(&self) -> Site<'_> {
        (&self.function, self.caller.as_ref())
    }
}

/// Measurements of the stacks of a kind of thread. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// Most that one of them can have used.
    pub bound: u64,
    /// The lowest bound of all runs; 0: unknown.
    pub least: u64,
    /// Most that one of them certainly used.
    pub peak: u64,
    /// The largest stack that one of them had.
    pub stack: u64,
    /// The largest stack that one of them ran out of; 0: none.
    pub overflow: u64,
    /// How often one ran out of its stack.
    pub overflows: u64,
    /// Threads that were measured.
    pub threads: u64,
    /// Runs of the program that had such threads.
    pub runs: u64,
    /// The program chose the size of one of them, or gave it the memory.
    pub explicit: bool,
    /// The function's name, for users.
    pub symbol: Option<String>,
    /// The name of its file, for users.
    pub file: Option<String>,
    /// The name of the place that creates its threads, for users.
    pub creator: Option<String>,
}

impl Kind {
    /// Adds measurements of the same kind in other runs: the maximum of sizes, the sum of counts.
    pub fn merge(&mut self, other: &Self) {
        self.least = match (self.lowest(), other.lowest()) {
            (0, lowest) | (lowest, 0) => lowest,
            (one, another) => one.min(another),
        };
        self.bound = self.bound.max(other.bound);
        self.peak = self.peak.max(other.peak);
        self.stack = self.stack.max(other.stack);
        self.overflow = self.overflow.max(other.overflow);
        self.overflows = self.overflows.saturating_add(other.overflows);
        self.threads = self.threads.saturating_add(other.threads);
        self.runs = self.runs.saturating_add(other.runs);
        self.explicit |= other.explicit;
        // Either of two names will do, so long as the order does not matter.
        self.symbol = self.symbol.take().max(other.symbol.clone());
        self.file = self.file.take().max(other.file.clone());
        self.creator = self.creator.take().max(other.creator.clone());
    }

    /// Whether it had threads. Without threads its sizes are those before they had a label.
    pub fn has_threads(&self) -> bool {
        self.threads != 0 || self.overflows != 0
    }

    /// The lowest bound of all runs, as far as it is known; 0: there is none.
    fn lowest(&self) -> u64 {
        match self.least {
            0 => self.bound,
            least => least.min(self.bound),
        }
    }

    /// Largest difference in use between two runs.
    pub fn growth(&self) -> u64 {
        self.bound - self.lowest()
    }
}

/// The data on a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its short name.
    pub program: String,
    /// Its kinds of thread.
    pub kinds: BTreeMap<Key, Kind>,
}

impl Profile {
    /// The profile of a program without data.
    pub fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), kinds: BTreeMap::new() }
    }

    /// Adds the data of other runs of the same program.
    pub fn merge(&mut self, other: &Self) {
        if other.program > self.program {
            self.program.clone_from(&other.program);
        }
        for (key, kind) in &other.kinds {
            self.add(key.clone(), kind);
        }
    }

    /// Adds the data of one kind.
    pub fn add(&mut self, key: Key, kind: &Kind) {
        self.kinds.entry(key).or_default().merge(kind);
    }

    /// The needs that a kind's stacks must meet: those of the kind without label, then its own once
    /// its threads have their labels. Where there is no kind without label, threads have their
    /// labels when they are created.
    pub fn made_for(&self, key: &Key) -> Kind {
        let bare = Key { label: Label::None, ..key.clone() };
        let Some(own) = self.kinds.get(key) else { return Kind::default() };
        let Some(bare) = self.kinds.get(&bare) else { return own.clone() };
        let growth = bare.growth().max(own.growth());
        let mut pair = bare.clone();
        pair.merge(own);
        pair.least = pair.bound - growth;
        Kind { stack: own.stack, explicit: own.explicit, ..pair }
    }

    /// The kinds of each site together: a thread that is created there with that function may be of
    /// any of them.
    pub fn sites(&self) -> BTreeMap<Site<'_>, Kind> {
        let mut sites = BTreeMap::<Site<'_>, Kind>::new();
        for (key, kind) in &self.kinds {
            let site = sites.entry(key.site()).or_default();
            let (runs, growth) = (site.runs.max(kind.runs), site.growth().max(kind.growth()));
            site.merge(kind);
            site.runs = runs;
            // The growth of each kind: two kinds that differ have not grown.
            site.least = site.bound - growth;
        }
        sites
    }

    /// Drops kinds down to that number: those with the fewest threads first, those that overflowed
    /// last. Returns the number of dropped kinds.
    pub fn keep(&mut self, most: usize) -> usize {
        let dropped = self.kinds.len().saturating_sub(most);
        if dropped > 0 {
            let mut keys: Vec<_> = self
                .kinds
                .iter()
                .map(|(key, kind)| (kind.overflow != 0, kind.threads, key.clone()))
                .collect();
            tek_sort::ascending(&mut keys);
            for (_, _, key) in keys.drain(..dropped) {
                self.kinds.remove(&key);
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_build_id_or_else_by_its_name() {
        assert_eq!(Place::module(&[0x0a, 0xff], b"/bin/x"), "0aff");
        assert_eq!(Place::module(&[], b"/usr/bin/fridge"), "@fridge");
        let long = Place::module(&[], "é".repeat(40).as_bytes());
        assert_eq!(long.len(), Place::MOST_BYTES);
    }

    #[test]
    fn stacks_are_made_for_the_kind_without_label_until_a_thread_has_one() {
        let mut profile = Profile::new("fridge");
        let function = Place { module: "@fridge".into(), offset: 1 };
        let key = |label| Key { function: function.clone(), caller: None, label };
        let (deep, many) = (key(Label::of_name(b"deep")), key(Label::of_name(b"worker-1")));
        profile.add(deep.clone(), &Kind { bound: 1 << 20, threads: 1, ..Kind::default() });
        profile.add(many.clone(), &Kind { bound: 12 << 10, threads: 63, ..Kind::default() });
        assert_eq!(profile.made_for(&many).bound, 12 << 10);
        profile.add(key(Label::None), &Kind { bound: 16 << 10, ..Kind::default() });
        assert_eq!(profile.made_for(&many).bound, 16 << 10);
        assert_eq!(profile.made_for(&deep).bound, 1 << 20);
    }

    #[test]
    fn what_is_dropped_has_the_fewest_threads_and_did_not_overflow() {
        let mut profile = Profile::new("fridge");
        for (offset, threads, overflow) in [(1, 5, 0), (2, 1, 65536), (3, 2, 0), (4, 9, 0)] {
            let function = Place { module: "@fridge".into(), offset };
            let key = Key { function, caller: None, label: Label::None };
            profile.add(key, &Kind { threads, overflow, ..Kind::default() });
        }
        assert_eq!(profile.keep(2), 2);
        let left: Vec<_> = profile.kinds.keys().map(|key| key.function.offset).collect();
        assert_eq!(left, [2, 4]);
        assert_eq!(profile.keep(2), 0);
    }
}
