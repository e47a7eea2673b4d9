// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules files and the variable TEK_RULES: what is taken, what is refused and where, and that
//! nothing is lost on the way.
use proptest::option::of;
use proptest::prelude::*;
use tek_policy::{
    decide, from_environment, parse, to_environment, to_toml, Budget, EnvironmentError, Facts,
    Glob, Group, Match, Reason, Rule, Set, Subject,
};

const EXAMPLE: &str = r#"
[[rule]]
match = { program = "fridge", thread = "gas*", function = "gas_*", role = "Gas*" }

[rule.set]
role = "gas detection"
group = "urgent"
critical = true
mark = false
priority = -5
budget = "200ms/1s"
"#;

#[test]
fn a_rule_has_the_threads_that_it_matches_and_what_it_sets() {
    let rules = parse(EXAMPLE, "fridge.toml").unwrap();
    let glob = |text, subject| Some(Glob::new(text, subject).unwrap());
    let expected = Rule {
        matches: Match {
            program: glob("fridge", Subject::Program),
            thread: glob("gas*", Subject::Thread),
            function: glob("gas_*", Subject::Function),
            role: glob("Gas*", Subject::Role),
        },
        set: Set {
            role: Some("gas detection".parse().unwrap()),
            group: Some(Group::Urgent),
            critical: Some(true),
            mark: Some(false),
            priority: Some("-5".parse().unwrap()),
            budget: Some("200ms/1s".parse().unwrap()),
        },
        source: "fridge.toml:2".to_owned(),
    };
    assert_eq!(rules, [expected]);
    assert_eq!(to_toml(&rules).parse::<toml::Table>(), EXAMPLE.parse::<toml::Table>());
    assert_eq!(
        to_environment(&rules).unwrap(),
        "program=fridge,thread=gas*,role-is=Gas*,function=gas_*,role=gas detection,group=urgent,\
         critical=1,mark=0,priority=-5,budget=200ms/1s,source=fridge.toml:2"
    );
}

#[test]
fn a_file_without_rules_is_no_mistake() {
    assert_eq!(parse("", "f").unwrap(), []);
    assert_eq!(parse("# nothing yet\n", "f").unwrap(), []);
}

#[test]
fn a_mistake_is_shown_with_its_place_and_reason() {
    let rule = |set: &str| format!("[[rule]]\nmatch = {{ thread = \"ui\" }}\nset = {{ {set} }}\n");
    let long = format!("role = \"{}\"", "x".repeat(64));
    for (text, place, reason) in [
        ("x = 1\n", "f:1:1", "unknown field `x`"),
        ("[[rule]]\nmatch = { thraed = \"a\" }\n", "f:2:11", "unknown field `thraed`"),
        ("\n[[rule]]\nset = { mark = true }\n", "f:2:1", "missing field `match`"),
        ("[[rule]]\nmatch = { thread = \"[a\" }\n", "f:2:20", "not closed"),
        ("[[rule]]\nmatch = { thread = 1 }\n", "f:2:20", "invalid type: integer `1`"),
        ("[[rule]]\nmatch = { thread = \"a-name-of-16-byte\" }\n", "f:2:20", "has at most 15"),
        ("[[rule]]\nmatch = { }\n", "f:2:9", "matches everything"),
        ("# x\n[rule]\nmatch = { thread = \"a\" }\n", "f:2:1", "write [[rule]]"),
        ("[rule]\nset = { }\n[rule]\n", "f:1:1", "write [[rule]]"),
        (&rule(""), "f:3:7", "sets nothing"),
        (&rule("colour = 1"), "f:3:9", "unknown field `colour`"),
        (&rule("group = \"fast\""), "f:3:17", "unknown variant `fast`, expected one of `normal`"),
        (&rule("priority = 20"), "f:3:20", "`20` is no priority"),
        (&rule("priority = 99999999999"), "f:3:20", "`99999999999` is no priority"),
        (&rule("budget = \"2s\""), "f:3:18", "write CPU/WINDOW"),
        (&rule("critical = \"yes\""), "f:3:20", "invalid type: string \"yes\""),
        (&rule("role = \"\""), "f:3:16", "the role is empty"),
        (&rule("role = \"a\\tb\""), "f:3:16", "control characters"),
        (&rule(&long), "f:3:16", "the role is 64 bytes long, at most 63 fit"),
        (&rule("role = \"ä\", mark = 1"), "f:3:28", "invalid type: integer `1`"),
        ("[[rule]]\nrule = {\n", "f:2:9", "unclosed inline table"),
        ("mark = true\nmark = true\n", "f:2:1", "duplicate key"),
        ("\u{1}\u{2}", "f:1:3", "key with no value"),
    ] {
        let error = parse(text, "f").expect_err(text).to_string();
        assert!(error.starts_with(&format!("{place}: ")), "{error} is not {place}");
        assert!(error.contains(reason), "{error} does not say {reason}");
    }
}

#[test]
fn a_file_that_is_not_utf_8_is_shown_where() {
    let error = parse(b"# ok\n# \xc3\xa4 \xff", "f").unwrap_err();
    assert_eq!((error.line, error.column, error.reason), (2, 5, Reason::NotUtf8));
}

#[test]
fn more_rules_than_the_library_takes_are_refused() {
    let rules = |count| "[[rule]]\nmatch.thread = \"a\"\nset.mark = true\n".repeat(count);
    let parsed = parse(rules(64), "f").unwrap();
    assert_eq!(parsed.len(), 64);
    let error = parse(rules(65), "f").unwrap_err();
    assert_eq!((error.line, &error.reason), (3 * 64 + 1, &Reason::TooMany));
    let twice = [parsed.clone(), parsed].concat();
    assert_eq!(to_environment(&twice), Err(EnvironmentError::TooMany(128)));
}

#[test]
fn rules_that_would_fill_the_environment_are_refused() {
    let glob = "\u{7f80}".repeat(84) + "*"; // escaped it takes three times as much
    let rule = format!("[[rule]]\nmatch.function = \"{glob}\"\nset.mark = true\n").repeat(64);
    let mut rules = parse(&rule, "f").unwrap();
    assert!(to_environment(&rules).is_ok());
    for rule in &mut rules {
        rule.source = "x".repeat(1000);
    }
    assert!(matches!(to_environment(&rules), Err(EnvironmentError::TooLong(_))));
}

fn glob(subject: Subject, text: &'static str) -> impl Strategy<Value = Option<Glob>> {
    of(text.prop_filter_map("no pattern", move |text| Glob::new(&text, subject).ok()))
}

prop_compose! {
    fn any_match()(
        program in glob(Subject::Program, r#"[a-z*?,;%=."'\\\[\]ä]{1,20}"#),
        thread in glob(Subject::Thread, r#"[a-z*?,;%="' ]{1,15}"#),
        role in glob(Subject::Role, r#"\PC{1,15}"#),
        function in glob(Subject::Function, "[a-zA-Z_0-9*]{1,100}"),
    ) -> Match {
        let program = match (&thread, &role, &function) {
            (None, None, None) => program.or(Some(Glob::new("p", Subject::Program).unwrap())),
            _ => program,
        };
        Match { program, thread, function, role }
    }
}

prop_compose! {
    fn any_set()(
        role in of(r#"[\PC]{1,15}"#.prop_filter_map("no role", |text| text.parse().ok())),
        group in of(proptest::sample::select(&Group::ALL[..])),
        critical in of(any::<bool>()),
        mark in any::<bool>(),
        priority in of((-20..=19i64).prop_map(|nice| nice.try_into().unwrap())),
        budget in of(prop_oneof![
            Just(Budget::Off),
            (1u64..10_000_000, 10_000_000u64..3_600_000_000_000).prop_map(|(cpu, window)| {
                format!("{cpu}ns/{window}ns").parse().unwrap()
            }),
        ]),
    ) -> Set {
        Set { role, group, critical, mark: Some(mark), priority, budget }
    }
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (any_match(), any_set(), r#"\PC{0,10}"#).prop_map(|(matches, set, source)| Rule {
        matches,
        set,
        source,
    });
    proptest::collection::vec(rule, 0..8)
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(text, "f");
    }

    #[test]
    fn no_text_makes_the_parsers_panic(
        text in r#"(\[\[rule\]\]\n)?(match|set|=|\{|\}|thread|"a*"|\n|,|.){0,30}"#,
    ) {
        let _ = parse(&text, "f");
        let _ = from_environment(&text);
    }

    #[test]
    fn what_was_written_reads_the_same(mut rules in any_rules()) {
        let mut read = parse(to_toml(&rules), "f").unwrap();
        for rule in rules.iter_mut().chain(&mut read) {
            rule.source.clear();
        }
        prop_assert_eq!(read, rules);
    }

    #[test]
    fn what_goes_through_the_environment_comes_out_the_same(rules in any_rules()) {
        let text = to_environment(&rules).unwrap();
        prop_assert!(!text.contains(char::is_control));
        prop_assert_eq!(from_environment(&text).unwrap(), rules);
    }

    #[test]
    fn a_decision_names_the_rules_that_set_its_values(
        rules in any_rules(),
        thread in "[a-z]{1,15}",
    ) {
        let facts = Facts { program: b"p", thread: Some(thread.as_bytes()), ..Facts::default() };
        let decision = decide(&rules, &facts);
        if let Some(role) = decision.role {
            prop_assert_eq!(rules[role.rule - 1].set.role.as_ref(), Some(role.value));
        }
        if let Some(mark) = decision.mark {
            prop_assert_eq!(rules[mark.rule - 1].set.mark, Some(mark.value));
        }
    }
}

#[test]
fn a_file_may_hold_settings_of_the_stack_tuner() {
    let text = "[stack]\nlow = \"10%\"\nmargin = 2\nfloor = \"64K\"\n";
    let stack = tek_policy::read(text, "f").unwrap().stack;
    assert_eq!(stack.low, Some(tek_policy::Percent(10)));
    assert_eq!(stack.high, None);
    assert_eq!(stack.margin, Some(tek_policy::Margin(200)));
    assert_eq!(stack.floor, Some(tek_policy::StackSize(65536)));
    let later = tek_policy::read("stack.low = \"20%\"\nstack.high = \"90%\"", "g").unwrap().stack;
    let pair = stack.overridden_by(later);
    assert_eq!(
        (pair.low, pair.high),
        (Some(tek_policy::Percent(20)), Some(tek_policy::Percent(90)))
    );
    assert_eq!(pair.margin, stack.margin);
}

#[test]
fn a_mistake_in_the_settings_is_named_with_its_place() {
    for (text, reported) in [
        ("[stack]\nlow = \"x\"", "f:2:7: write a share of the stack from 0% to 100%, as in 25%"),
        ("[stack]\nmargin = 0.5", "f:2:10: write how much of what was used a stack gets"),
        ("\n[stack]\nfloor = \"9G\"", "f:3:9: write a size up to 1G"),
        ("[stack]\nsize = 3", "f:2:1: unknown field `size`"),
        ("[stack]\nlow = \"90%\"\nhigh = \"80%\"", "f:1:1: low is above high"),
    ] {
        let error = tek_policy::read(text, "f").unwrap_err().to_string();
        assert!(error.starts_with(reported), "{error}");
    }
}
