// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of locks of libtek-sync.so: values of `--lock` and its like.
use clap::builder::PossibleValue;
use clap::ValueEnum;

/// Kinds of mutexes: `tek_sync__lock_kinds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lock {
    /// Spin lock: test-and-set
    Tas,
    /// Spin lock: reads until it is free, then test-and-set
    Tatas,
    /// Spin lock: tickets, with exponential back-off
    Ticket,
    /// Spin lock: tickets, with proportional back-off
    TicketPb,
    /// Spin lock: a queue with its nodes on the stacks of the waiting threads
    K42,
    /// Spin lock: a queue of nodes, one for each lock that a thread has
    Mcs,
    /// Spins in a queue that passes over those that are preempted
    Tp,
    /// Spins for a while, then sleeps
    Park,
    /// Sleeps at once
    Futex,
    /// Spins for a while, then sleeps, with priority inheritance
    Pi,
    /// Spins or sleeps, by what it has seen; --report says what locks came to
    Auto,
}

/// Kinds of read-write locks: `tek_sync__rwlock_kinds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rwlock {
    /// Phase-fair ticket spin lock: readers and writers take turns
    Pf,
    /// Spins for a while, then sleeps; prefers readers or writers as the program's attribute says
    Park,
}

/// Kinds of barriers: `tek_sync__barrier_kinds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Barrier {
    /// Counts in one place; spins until the last one has come
    Central,
    /// log2(threads) steps, each spins on a line of its own
    Dissemination,
    /// Spins for a while, then sleeps
    Block,
    /// Mutex and condition variable: the baseline
    Mutex,
    /// Spins while there are CPUs for all, sleeps otherwise
    Auto,
}

/// As the command line has it.
pub fn name_of<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().as_ref().map(PossibleValue::get_name).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;

    /// The kinds in the files of lib/sync with this beginning: name and words.
    fn kinds(beginning: &str) -> Vec<(String, String)> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/sync");
        let quoted = |text: &str, field: &str| {
            let (_, rest) = text.split_once(&format!(".{field} = \""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let mut found: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(beginning))
            .filter(|path| path.extension() == Some(OsStr::new("c")))
            .filter_map(|path| {
                let text = fs::read_to_string(path).unwrap();
                Some((quoted(&text, "name")?, quoted(&text, "about")?))
            })
            .collect();
        found.sort();
        found
    }

    fn known<T: ValueEnum>() -> Vec<String> {
        let mut names: Vec<_> =
            T::value_variants().iter().map(|value| name_of(value.clone())).collect();
        names.sort();
        names
    }

    #[test]
    fn the_names_are_those_of_the_library() {
        let names =
            |beginning| kinds(beginning).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(known::<Lock>(), names("lock_"));
        assert_eq!(known::<Rwlock>(), names("rwlock_"));
        assert_eq!(known::<Barrier>(), names("barrier_"));
    }
}
