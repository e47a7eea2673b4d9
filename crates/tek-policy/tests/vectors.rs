// SPDX-License-Identifier: MIT OR Apache-2.0
//! tests/vectors: what the C half judges the same way (tests/c/mediate/test_rule.c, test_config.c).
#[path = "../../../tests/vectors/reader.rs"]
mod reader;

use std::fmt::Display;
use std::time::Duration;
use tek_policy::{decide, from_environment, to_environment};
use tek_policy::{Budget, Decision, EnvironmentError, Facts, Given, Group, Rule, Set};

/// As TEK_RULES has them, without their sources.
fn written(mut rules: Vec<Rule>) -> String {
    rules.iter_mut().for_each(|rule| rule.source.clear());
    to_environment(&rules).unwrap()
}

#[test]
fn rules_are_taken_and_refused_as_the_library_does() {
    for vector in reader::read("rules.txt") {
        let place = &vector.place;
        match vector.word(0) {
            "taken" => {
                let rules = from_environment(vector.word(1));
                let rules = rules.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(written(rules), vector.word(2), "{place}");
            }
            "refused" => match from_environment(vector.word(2)) {
                Err(EnvironmentError::Rule { rule, .. }) => {
                    assert_eq!(rule.to_string(), vector.word(1), "{place}");
                }
                other => panic!("{place}: {other:?}"),
            },
            "unfit" => assert!(from_environment(vector.word(1)).is_err(), "{place}"),
            other => panic!("{place}: {other}"),
        }
    }
}

fn shown(decision: &Decision<'_>) -> String {
    fn setting<T>(name: &str, given: Option<Given<T>>, text: impl Fn(T) -> String) -> String {
        given.map_or(String::new(), |Given { value, rule }| {
            format!("{name}={}@{rule} ", text(value))
        })
    }
    fn plain<T: Display>(value: T) -> String {
        value.to_string()
    }
    let switch = |on: bool| u8::from(on).to_string();
    let settings = [
        setting("role", decision.role, plain),
        setting("group", decision.group, plain),
        setting("critical", decision.critical, switch),
        setting("mark", decision.mark, switch),
        setting("priority", decision.priority, plain),
        setting("budget", decision.budget, plain),
    ];
    settings.concat().trim_end().to_owned()
}

#[test]
fn rules_decide_as_in_the_library() {
    let mut rules = Vec::new();
    for vector in reader::read("decisions.txt") {
        let place = &vector.place;
        if vector.word(0) == "rules" {
            rules = from_environment(vector.word(1)).unwrap();
            continue;
        }
        assert_eq!(vector.word(0), "thread", "{place}");
        let own = |at: usize| Some(vector.word(at).as_bytes());
        let facts = Facts {
            program: vector.word(1).as_bytes(),
            thread: own(2),
            role: own(3),
            function: own(4),
        };
        assert_eq!(shown(&decide(&rules, &facts)), vector.words[5..].join(" "), "{place}");
    }
}

#[test]
fn budgets_are_read_as_in_the_library() {
    for vector in reader::read("budgets.txt") {
        let place = &vector.place;
        let ns = |at: usize| Duration::from_nanos(vector.word(at).parse().unwrap());
        let expected = match (vector.word(0), vector.word(2 * usize::from(vector.words.len() > 2)))
        {
            ("refused", _) => None,
            ("taken", "0") => Some(Budget::Off),
            ("taken", _) => Some(Budget::Limit { cpu: ns(2), window: ns(3) }),
            (other, _) => panic!("{place}: {other}"),
        };
        assert_eq!(vector.word(1).parse().ok(), expected, "{place}");
    }
}

#[test]
fn each_group_has_its_name_in_files_too() {
    for group in Group::ALL {
        let set: Set = toml::from_str(&format!("group = \"{group}\"")).unwrap();
        assert_eq!(set.group, Some(group));
        assert_eq!(group.name().parse(), Ok(group));
    }
}
