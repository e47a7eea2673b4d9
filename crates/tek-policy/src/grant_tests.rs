// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of grants, and of the file that they are read from.
use super::*;
use crate::grant_file::{read_configuration, Configuration};
use proptest::prelude::*;

fn read(text: &str) -> Configuration {
    read_configuration(text, "tekd.toml").unwrap()
}

fn complaint(text: impl AsRef<[u8]>) -> String {
    read_configuration(text, "tekd.toml").unwrap_err().to_string()
}

fn user(uid: u32) -> Requester {
    Requester { uid, gids: vec![uid], ..Requester::default() }
}

fn nice(nice: i64) -> Priority {
    Priority::try_from(nice).unwrap()
}

#[test]
fn without_a_file_root_and_the_user_at_the_device_may() {
    let usual = Configuration::default();
    assert_eq!(usual, read(""));
    assert!(usual.grant_for(&user(0)).unwrap().terms.may_change_other_users(0).is_ok());
    assert_eq!(usual.grant_for(&user(1000)), Err(Refusal::NoGrant(1000)));
    let active = Requester { active: true, ..user(1000) };
    let terms = &usual.grant_for(&active).unwrap().terms;
    assert_eq!(terms.may_change_other_users(1000), Err(Refusal::OtherUsers));
}

#[test]
fn a_file_with_grants_replaces_the_usual_ones_and_one_without_does_not() {
    let none = read("grant = []");
    assert_eq!(none.grant_for(&user(0)), Err(Refusal::NoGrant(0)));
    let range = read("real_time = [1, 97]\ncanary_seconds = 0\nprotected = []");
    assert!(range.grant_for(&user(0)).is_ok());
    assert_eq!(range.real_time, RealTime { low: 1, high: 97 });
    assert_eq!((range.canary_seconds, range.protected.len()), (0, 0));
}

#[test]
fn of_each_kind_that_a_grant_names_one_must_fit() {
    let all = read(
        "[[grant]]\nusers = [7, 8]\ngroups = [20]\nprograms = [\"/usr/bin/*\"]\n\
         cgroups = [\"/app.slice/*\"]\n",
    );
    let owner = Requester {
        uid: 8,
        gids: vec![8, 20],
        program: Some("/usr/bin/player".to_owned()),
        cgroups: vec!["/".to_owned(), "/app.slice/a/b".to_owned()],
        active: false,
    };
    assert!(all.grant_for(&owner).is_ok());
    let remaining = [
        Requester { uid: 9, ..owner.clone() },
        Requester { gids: vec![8], ..owner.clone() },
        Requester { program: None, ..owner.clone() },
        Requester { program: Some("/usr/bin/x/player".to_owned()), ..owner.clone() },
        Requester { cgroups: vec!["/app.slice".to_owned()], ..owner.clone() },
    ];
    for other in remaining {
        assert_eq!(all.grant_for(&other), Err(Refusal::NoGrant(other.uid)), "{other:?}");
    }
}

#[test]
fn the_first_grant_that_fits_decides() {
    let two = read("[[grant]]\nusers = [5]\nthreads = 1\n[[grant]]\nusers = [\"*\"]\nthreads = 2");
    assert_eq!(two.grant_for(&user(5)).unwrap().source, "tekd.toml:1");
    assert_eq!(two.grant_for(&user(6)).unwrap().terms.threads, 2);
}

#[test]
fn names_are_resolved_and_unknown_ones_grant_nothing() {
    let mut file =
        read("[[grant]]\nusers = [\"ann\", \"bob\"]\n[[grant]]\ngroups = [\"x\", \"y\"]");
    let unknown =
        file.resolve(|name| (name == "ann").then_some(3), |name| (name == "y").then_some(4));
    assert_eq!(unknown, ["tekd.toml:1: there is no user bob", "tekd.toml:3: there is no group x"]);
    assert!(file.grant_for(&user(3)).is_ok());
    assert!(file.grant_for(&Requester { gids: vec![1, 4], ..user(9) }).is_ok());
    assert!(file.grant_for(&user(9)).is_err());
}

#[test]
fn a_mistake_is_reported_with_its_place() {
    let cases = [
        ("[[grant]]\nusers = [0]\nthread = 3", "tekd.toml:3:1: unknown field `thread`"),
        ("x = 1", "tekd.toml:1:1: unknown field `x`"),
        ("[[grant]]\nthreads = 3", "tekd.toml:1:1: say which processes this grant is for"),
        ("\n[grant]\nusers = [0]", "tekd.toml:2:1: write [[grant]]"),
        ("[[grant]]\nusers = [\"@seat\"]", "tekd.toml:2:9: invalid value"),
        ("[[grant]]\nusers = [-1]", "tekd.toml:2:10: invalid value"),
        ("[[grant]]\nusers = [4294967295]", "tekd.toml:2:10: invalid value"),
        ("[[grant]]\nprograms = [\"player\"]", "tekd.toml:2:12: `player` is no path"),
        ("[[grant]]\nusers = [0]\nthreads = -1", "tekd.toml:3:11: -1 is no number"),
        ("[[grant]]\nusers = [0]\nrate = 0", "tekd.toml:3:8: 0 is no rate"),
        ("[[grant]]\nusers = [0]\npriorities = [5, 4]", "tekd.toml:3:14: write the best"),
        ("[[grant]]\nusers = [0]\npriorities = [-21, 4]", "tekd.toml:3:14: `-21` is no"),
        ("[[grant]]\nusers = [0]\nbudget = \"2s/1s\"", "tekd.toml:3:10: a thread cannot"),
        ("real_time = [10, 98]", "tekd.toml:1:13: write the lowest"),
        ("real_time = [0, 9]", "tekd.toml:1:13: write the lowest"),
        ("real_time = [9, 8]", "tekd.toml:1:13: write the lowest"),
    ];
    for (text, wanted) in cases {
        let reported = complaint(text);
        assert!(reported.starts_with(wanted), "{text:?}: {reported}");
    }
    assert_eq!(complaint(b"users\xff"), "tekd.toml:1:6: this is not UTF-8");
}

#[test]
fn what_is_beyond_the_terms_is_refused() {
    let text = "[[grant]]\nusers = [\"*\"]\nthreads = 2\nuser_threads = 3\npriorities = [-5, 5]\n\
                rate = 1\nburst = 2";
    let terms = &read(text).grants[0].terms;
    assert!(terms.may_have(nice(-5)).is_ok() && terms.may_have(nice(5)).is_ok());
    for outside in [-6, 6] {
        let refused = terms.may_have(nice(outside)).unwrap_err();
        assert_eq!(refused.errno(), libc::EPERM);
    }
    let add = |more, process, user| terms.may_add(more, Counts { process, user });
    assert_eq!(add(1, 1, 2), Ok(()));
    assert_eq!(add(0, 9, 9), Ok(()));
    assert_eq!(add(1, 2, 2), Err(Refusal::ProcessThreads(2)));
    assert_eq!(add(1, 0, 3), Err(Refusal::UserThreads(3)));
    assert_eq!(add(u32::MAX, 1, 1), Err(Refusal::ProcessThreads(2)));
    let mut account = Bucket::default();
    assert!(terms.may_switch(&mut account, 0).is_ok() && terms.may_switch(&mut account, 0).is_ok());
    assert_eq!(terms.may_switch(&mut account, 0).map_err(Refusal::errno), Err(libc::EBUSY));
}

#[test]
fn a_refusal_fits_into_a_reply() {
    let refusals = [
        Refusal::NoGrant(u32::MAX),
        Refusal::OtherUsers,
        Refusal::Priority { asked: -20, first: -20, last: -20 },
        Refusal::ProcessThreads(1024),
        Refusal::UserThreads(1024),
        Refusal::Rate(10_000),
    ];
    for refusal in refusals {
        assert!(refusal.to_string().len() < 88, "{refusal}");
    }
}

#[test]
fn priorities_are_spread_over_the_range() {
    let range = RealTime { low: 10, high: 49 };
    assert_eq!([-20, 0, 19].map(|n| range.priority(nice(n))), [49, 29, 10]);
    let one = RealTime { low: 7, high: 7 };
    assert_eq!([-20, 19].map(|n| one.priority(nice(n))), [7, 7]);
}

proptest! {
    #[test]
    fn a_better_priority_is_never_lower(
        low in 1u32..=97,
        more in 0u32..97,
        a in -20i64..=19,
        b in -20i64..=19,
    ) {
        let range = RealTime { low, high: (low + more).min(97) };
        let (a, b) = (nice(a.min(b)), nice(a.max(b)));
        prop_assert!(range.priority(a) >= range.priority(b));
        prop_assert!((range.low..=range.high).contains(&range.priority(a)));
    }

    #[test]
    fn no_text_makes_the_reader_stumble(text in ".{0,200}") {
        let _ = read_configuration(text, "f");
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_configuration(bytes, "f");
    }

    #[test]
    fn nothing_like_a_file_makes_the_reader_stumble(
        lines in prop::collection::vec(
            concat!(
                r"(\[\[?(grant|kthreads)\]?\]|method|linger_ms|weights|functions|off|users|groups",
                r"|programs|cgroups|threads|user_threads|priorities|budget|rate|burst|limit|others",
                r"|real_time|canary_seconds|protected|x)",
                r#" ?=? ?(\[?"?[-@*/a-z0-9]{0,9}"?,? ?"?[-0-9]{0,4}"?\]?|true|"[0-9]m?s/1s")"#,
            ),
            0..12,
        ),
    ) {
        if let Ok(configuration) = read_configuration(lines.join("\n"), "f") {
            prop_assert!(configuration.real_time.low <= configuration.real_time.high);
            for grant in &configuration.grants {
                prop_assert!(grant.terms.first <= grant.terms.last);
                prop_assert!(grant.terms.rate > 0 && grant.terms.burst > 0);
            }
        }
    }

    #[test]
    fn no_process_gets_more_than_the_grant_allows(
        threads in 0u32..20, user_threads in 0u32..20,
        asks in prop::collection::vec((0usize..4, 1u32..3), 0..100),
    ) {
        let terms = Terms { threads, user_threads, ..Terms::default() };
        let mut processes = [0u32; 4];
        for (process, more) in asks {
            let counts = Counts { process: processes[process], user: processes.iter().sum() };
            if terms.may_add(more, counts).is_ok() {
                processes[process] += more;
            }
        }
        prop_assert!(processes.iter().all(|count| *count <= threads));
        prop_assert!(processes.iter().sum::<u32>() <= user_threads);
    }
}
