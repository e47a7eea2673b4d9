// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of one kind: their names differ in numbers only, such as worker-0 to worker-7.
use std::collections::BTreeSet;
use tek_policy::{Glob, Invalid, Subject};

/// The common pattern of the names of one kind: each number is a `#`.
pub fn kind_of(name: &str) -> String {
    with_numbers_as(name, "#")
}

/// The pattern for the threads of a kind: the name itself if there is one only.
pub fn glob_of(names: &BTreeSet<String>) -> Result<Glob, Invalid> {
    let exact = Glob::exactly(names.first().map_or("", String::as_str), Subject::Thread)?;
    if names.len() == 1 {
        return Ok(exact);
    }
    Glob::new(&with_numbers_as(exact.as_str(), "[0-9]*"), Subject::Thread)
}

fn with_numbers_as(text: &str, number: &str) -> String {
    let changed = tek_stack::with_numbers_as(text.as_bytes(), number.as_bytes());
    String::from_utf8(changed).expect("only digits gave way")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(names: &[&str]) -> String {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        glob_of(&names).unwrap().to_string()
    }

    #[test]
    fn names_that_differ_in_numbers_are_of_one_kind() {
        assert_eq!(kind_of("worker-12"), kind_of("worker-3"));
        assert_eq!(kind_of("pool-1-thread-22"), "pool-#-thread-#");
        assert_ne!(kind_of("ui"), kind_of("ui2"));
    }

    #[test]
    fn one_thread_is_meant_by_its_name_and_several_by_a_pattern() {
        assert_eq!(glob(&["ui2"]), "ui2");
        assert_eq!(glob(&["worker-0", "worker-11"]), "worker-[0-9]*");
        assert_eq!(glob(&["[io]*1"]), "\\[io]\\*1");
    }

    #[test]
    fn a_name_that_cannot_stand_in_a_file_has_no_pattern() {
        assert!(glob_of(&BTreeSet::from(["a\x1b[2J".to_owned()])).is_err());
        assert!(glob_of(&BTreeSet::new()).is_err());
    }

    proptest! {
        #[test]
        fn a_pattern_fits_every_name_of_its_kind(
            parts in proptest::collection::vec(r"[a-c*?\[\]\\#-]{1,2}", 1..4),
            numbers in proptest::collection::vec((0u32..100, 0u32..100), 1..5),
        ) {
            let name = |(a, b): &(u32, u32)| -> String {
                let number = |at: usize| if at.is_multiple_of(2) { a } else { b };
                let parts = parts.iter().enumerate();
                parts.map(|(at, part)| format!("{part}{}", number(at))).collect()
            };
            let names: BTreeSet<String> = numbers.iter().map(name).collect();
            let glob = glob_of(&names).unwrap();
            for name in &names {
                prop_assert!(glob.matches(name.as_bytes()), "{} does not fit {}", glob, name);
                prop_assert_eq!(kind_of(name), kind_of(names.first().unwrap()));
            }
        }
    }
}
