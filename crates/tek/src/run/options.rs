// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of `tek run`'s options: pure functions from text to meaning.
//!
//! libtek.so reads the same values from the environment, but can only complain after the program
//! has started. So they are checked here first, as strictly as the library does or more so.
use anyhow::{anyhow, bail};
use std::fmt;
use std::str::FromStr;
use tek_abi::options::{RT_LEAST, RT_MOST};
use tek_policy::{Glob, Match, Priority, Role, Rule, Set, Subject};

/// `GLOB[=NICE]`: threads by name that become time-critical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The pattern.
    pub glob: Glob,
    /// SCHED_TEK priority.
    pub nice: Option<Priority>,
}

impl fmt::Display for Critical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nice {
            Some(nice) => write!(f, "{}={nice}", self.glob),
            None => self.glob.fmt(f),
        }
    }
}

impl FromStr for Critical {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (glob, nice) = match text.rsplit_once('=') {
            Some((glob, nice)) => (glob, Some(priority(nice)?)),
            None => (text, None),
        };
        if glob.contains(',') {
            bail!("a pattern cannot contain a comma: give --critical once for each pattern");
        }
        Ok(Self { glob: Glob::new(glob, Subject::Thread)?, nice })
    }
}

impl Critical {
    /// The priority: 0 unless one was given.
    pub fn priority(&self) -> Priority {
        self.nice.unwrap_or_default()
    }

    fn rule(&self) -> Rule {
        Rule {
            matches: Match { thread: Some(self.glob.clone()), ..Match::default() },
            set: Set { critical: Some(true), priority: Some(self.priority()), ..Set::default() },
            source: format!("--critical {self}"),
        }
    }
}

/// The rules for `--critical`. The last matching rule wins, and of several patterns the one with
/// the best priority shall, as in TEK_CRITICAL. So that one comes last, and the first of equals.
pub fn critical_rules(patterns: &[Critical]) -> Vec<Rule> {
    let mut patterns: Vec<_> = patterns.iter().rev().collect();
    tek_sort::by_key(&mut patterns, |pattern| std::cmp::Reverse(pattern.priority()));
    patterns.into_iter().map(Critical::rule).collect()
}

fn priority(text: &str) -> anyhow::Result<Priority> {
    text.parse().map_err(|error| anyhow!("after `=`: {error}, as in ui*=-5"))
}

/// `GLOB=ROLE`: threads by name that have a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleOption(pub Rule);

impl FromStr for RoleOption {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let Some((glob, role)) = text.split_once('=') else {
            bail!("write GLOB=ROLE, as in 'gas*=gas detection'");
        };
        Ok(Self(Rule {
            matches: Match { thread: Some(Glob::new(glob, Subject::Thread)?), ..Match::default() },
            set: Set { role: Some(role.parse::<Role>()?), ..Set::default() },
            source: format!("--role {text}"),
        }))
    }
}

/// `LO-HI`: the real-time priorities that time-critical threads get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtRange {
    /// Priority of nice 19.
    pub low: u8,
    /// Priority of nice -20.
    pub high: u8,
}

impl FromStr for RtRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "write LO-HI, real-time priorities from 1 to 98 with the lower one first, as in 10-49";
        let (low, high) = text.split_once('-').ok_or(FORM)?;
        let number = |text: &str| {
            let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<u8> = text.parse().ok().filter(|_| all_digits);
            number.filter(|&n| (RT_LEAST..=RT_MOST).contains(&n.into())).ok_or(FORM)
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(FORM.into());
        }
        Ok(Self { low, high })
    }
}

impl fmt::Display for RtRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_policy::Group;

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    use proptest::prelude::*;

    #[test]
    fn variables_are_read_as_in_the_library() {
        for vector in reader::read("options.txt") {
            let (text, taken) = (vector.word(2), vector.word(1) == "taken");
            let read: Option<Vec<String>> = match vector.word(0) {
                "TEK_RT_RANGE" => text
                    .parse()
                    .ok()
                    .map(|RtRange { low, high }| vec![low.to_string(), high.to_string()]),
                "TEK_CRITICAL" => text.parse().ok().map(|critical: Critical| {
                    vec![critical.glob.to_string(), critical.priority().to_string()]
                }),
                "TEK_GROUP" => {
                    let group = text.parse::<Group>().ok();
                    group.map(|group| vec![crate::groups::name::number(group).to_string()])
                }
                _ => continue,
            };
            assert_eq!(read, taken.then(|| vector.words[3..].to_vec()), "{}", vector.place);
        }
    }

    #[test]
    fn a_comma_in_a_pattern_is_refused() {
        assert!("a,b".parse::<Critical>().is_err());
        assert!("".parse::<Critical>().is_err());
    }

    #[test]
    fn of_several_patterns_that_fit_the_one_with_the_best_priority_wins() {
        let patterns = ["ui*=-5", "ui1=3", "u*", "*=-5", "u?1"].map(|text| text.parse().unwrap());
        let rules = critical_rules(&patterns);
        let sources: Vec<_> = rules.iter().map(|rule| &*rule.source).collect();
        let expected =
            ["ui1=3", "u?1", "u*", "*=-5", "ui*=-5"].map(|it| format!("--critical {it}"));
        assert_eq!(sources, expected);
        let thread = tek_policy::Facts { thread: Some(b"ui1"), ..Default::default() };
        let decision = tek_policy::decide(&rules, &thread);
        assert_eq!(decision.critical.map(|given| (given.value, given.rule)), Some((true, 5)));
        assert_eq!(decision.priority.map(|given| given.value.nice()), Some(-5));
    }

    #[test]
    fn a_role_may_hold_an_equals_sign() {
        let RoleOption(rule) = "gas*=k=v".parse().unwrap();
        assert_eq!(rule.matches.thread.unwrap().as_str(), "gas*");
        assert_eq!(rule.set.role.unwrap().as_str(), "k=v");
        for bad in ["", "gas", "=role", "gas=", "[=role"] {
            assert!(bad.parse::<RoleOption>().is_err(), "{bad:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
            let _ = text.parse::<Critical>();
            let _ = text.parse::<RoleOption>();
            let _ = text.parse::<RtRange>();
        }

        #[test]
        fn what_was_taken_reads_the_same_after_it_was_written(
            text in r"[\]\[!^:*?\\a-c=0-9-]{1,12}",
        ) {
            if let Ok(critical) = text.parse::<Critical>() {
                prop_assert_eq!(critical.to_string().parse::<Critical>().unwrap(), critical);
            }
        }
    }
}
