// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of profiles, and the meaning of a merge.
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tek_stack::{parse, FormatError, Key, Kind, Label, Place, Profile};

const MEMCACHED: &str = "\
tek-stack-profile 1
program memcached
# anything
kind function=2f0e+0x1234 caller=@memcached+0xff label=name:worker-# bound=12288 peak=11832 \
stack=8388608 overflow=0 overflows=0 threads=13 runs=2 symbol=worker_libevent in=memcached

kind function=2f0e+0x1234 caller=- label=role:gas%20detection bound=1 threads=1 later=x
";

fn place() -> impl Strategy<Value = Place> {
    let module = prop_oneof!["[0-9a-f]{40}", "[0-9a-f]{2}", "@[a-z%+ é]{1,12}"];
    (module, 0u64..4).prop_map(|(module, offset)| Place { module, offset })
}

fn label() -> impl Strategy<Value = Label> {
    let bytes = || vec(any::<u8>(), 0..64);
    prop_oneof![
        Just(Label::None),
        bytes().prop_map(Label::Name),
        bytes().prop_map(Label::Role),
        "[a-c]".prop_map(|name| Label::Name(name.into_bytes())),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let name = || proptest::option::of("[a-z :<>%é\n]{0,30}");
    (any::<[u64; 8]>(), name(), name(), name()).prop_map(|(numbers, symbol, file, creator)| {
        let [bound, least, peak, stack, overflow, overflows, threads, runs] = numbers;
        let explicit = runs % 2 == 1;
        Kind {
            bound,
            // A kind with a bound has it, and at most the bound.
            least: least.clamp(bound.min(1), bound),
            peak,
            stack,
            overflow,
            overflows,
            threads,
            runs,
            explicit,
            symbol,
            file,
            creator,
        }
    })
}

fn profile() -> impl Strategy<Value = Profile> {
    let key = (place(), proptest::option::of(place()), label())
        .prop_map(|(function, caller, label)| Key { function, caller, label });
    ("[ -~é]{0,20}", btree_map(key, kind(), 0..6))
        .prop_map(|(program, kinds)| Profile { program, kinds })
}

fn merged(a: &Profile, b: &Profile) -> Profile {
    let mut pair = a.clone();
    pair.merge(b);
    pair
}

#[test]
fn a_profile_is_read_as_it_is_documented() {
    let parsed = parse(MEMCACHED.as_bytes()).unwrap();
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    assert_eq!(parsed.profile.program, "memcached");
    let kinds: Vec<_> = parsed.profile.kinds.into_iter().collect();
    let (gas, worker) = (&kinds[0], &kinds[1]);
    assert_eq!(gas.0.label, Label::Role(b"gas detection".to_vec()));
    assert_eq!(gas.0.caller, None);
    let caller = worker.0.caller.as_ref().unwrap();
    assert_eq!((caller.module.as_str(), caller.offset), ("@memcached", 0xff));
    assert_eq!((worker.1.bound, worker.1.threads, worker.1.runs), (12288, 13, 2));
    assert_eq!(worker.1.symbol.as_deref(), Some("worker_libevent"));
}

#[test]
fn a_line_that_makes_no_sense_is_named_and_the_other_lines_hold() {
    let good = "kind function=aa+0x1 bound=5 threads=1\n";
    for bad in [
        "kind bound=5 threads=1",
        "kind function=aa+0x1 threads=1",
        "kind function=aa+0x1 bound=5",
        "kind function=aa+0x1 bound=-5 threads=1",
        "kind function=aa+0x1 bound=+5 threads=1",
        "kind function=aa+0x1 bound= threads=1",
        "kind function=aa+0x1 bound=18446744073709551616 threads=1",
        "kind function=aa+0x1 bound=0x5 threads=1",
        "kind function=aa+1 bound=5 threads=1",
        "kind function=aa+0x bound=5 threads=1",
        "kind function=aa+0x11111111111111111 bound=5 threads=1",
        "kind function=xx+0x1 bound=5 threads=1",
        "kind function=@+0x1 bound=5 threads=1",
        "kind function=+0x1 bound=5 threads=1",
        "kind function=- bound=5 threads=1",
        "kind function=aa+0x1  bound=5 threads=1",
        "kind function=aa+0x1 bound=5 threads=1 ",
        "kind function=aa+0x1 bound=5 threads=1 bound=6",
        "kind function=aa+0x1 caller=x bound=5 threads=1",
        "kind function=@a%2+0x1 bound=5 threads=1",
        "kind  function=aa+0x1 bound=5 threads=1",
        "kinds function=aa+0x1 bound=5 threads=1",
        " kind function=aa+0x1 bound=5 threads=1",
        "\x00",
    ] {
        let text = format!("tek-stack-profile 1\n{bad}\n{good}");
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.profile.kinds.len(), 1, "{bad:?}");
        assert_eq!(parsed.profile.kinds.values().next().unwrap().bound, 5, "{bad:?}");
        assert_eq!(parsed.problems.len(), 1, "{bad:?}");
        assert_eq!(parsed.problems[0].line, 2, "{bad:?}");
    }
}

#[test]
fn of_a_half_written_profile_the_whole_lines_hold() {
    let bytes = MEMCACHED.as_bytes();
    let mut most = 0;
    for end in 0..bytes.len() {
        let Ok(parsed) = parse(&bytes[..end]) else {
            assert!(end < "tek-stack-profile 1\n".len());
            continue;
        };
        for kind in parsed.profile.kinds.values() {
            assert!([1, 12288].contains(&kind.bound) && [1, 13].contains(&kind.threads));
        }
        assert!(parsed.profile.kinds.len() >= most);
        most = parsed.profile.kinds.len();
    }
    assert_eq!(most, 1);
}

#[test]
fn what_is_no_profile_or_of_another_version_is_refused() {
    let refused = |text: &str| parse(text.as_bytes()).unwrap_err();
    assert_eq!(refused(""), FormatError::NoProfile);
    assert_eq!(refused("tek-stack-profile 1"), FormatError::NoProfile);
    assert_eq!(refused("tek-stack-profile 2\n"), FormatError::Version("2".into()));
    assert_eq!(refused("tek-stack-profile 1 \n"), FormatError::Version("1 ".into()));
    assert_eq!(refused("\u{feff}tek-stack-profile 1\n"), FormatError::NoProfile);
    let large = MEMCACHED.to_owned() + &"#\n".repeat(1 << 19);
    assert_eq!(refused(&large), FormatError::TooLarge);
}

#[test]
fn more_kinds_than_there_is_room_for_are_dropped_and_counted() {
    let mut profile = Profile::new("many");
    for offset in 0..5000 {
        let function = Place { module: "ab".repeat(20), offset };
        let key = Key { function, caller: None, label: Label::Role(vec![1; 63]) };
        let symbol = Some("x".repeat(500));
        profile.add(key, &Kind { threads: offset, symbol, ..Kind::default() });
    }
    let (text, dropped) = profile.format();
    assert!(text.len() <= 1 << 20 && dropped >= 904, "{dropped}");
    let parsed = parse(text.as_bytes()).unwrap();
    assert!(parsed.problems.is_empty());
    assert_eq!(parsed.profile.kinds.len(), 5000 - dropped);
    // Those with the most threads stayed.
    assert_eq!(parsed.profile.kinds.keys().next().unwrap().function.offset, dropped as u64);
}

proptest! {
    #[test]
    fn what_was_written_reads_the_same(profile in profile()) {
        let (text, dropped) = profile.format();
        prop_assert_eq!(dropped, 0);
        let parsed = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(parsed.problems, vec![]);
        prop_assert_eq!(parsed.profile, profile);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        rest in vec(any::<u8>(), 0..400),
        words in vec(
            "kind |function=|@a\\+0x|caller=|bound=|threads=|label=name:|%|-| |\n|[0-9]{1,25}",
            0..40,
        ),
    ) {
        let _ = parse(&rest);
        let first = b"tek-stack-profile 1\n".to_vec();
        let _ = parse(&[first.clone(), rest].concat());
        let parsed = parse(&[first, words.concat().into_bytes()].concat()).unwrap();
        // An accepted profile can be written and read again.
        let (text, _) = parsed.profile.format();
        prop_assert_eq!(parse(text.as_bytes()).unwrap().profile, parsed.profile);
    }

    #[test]
    fn profiles_may_be_merged_in_any_order(a in profile(), b in profile(), c in profile()) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    }

    #[test]
    fn what_is_largest_stays_the_same_when_a_profile_is_merged_again(a in profile()) {
        for (key, kind) in merged(&a, &a).kinds {
            let old = &a.kinds[&key];
            prop_assert_eq!(
                (kind.bound, kind.peak, kind.stack, kind.overflow, kind.symbol),
                (old.bound, old.peak, old.stack, old.overflow, old.symbol.clone())
            );
            prop_assert_eq!(kind.threads, old.threads.saturating_mul(2));
        }
    }
}

/// tests/c/stack/test_stack_profile.c judges the same lines.
#[test]
fn each_line_is_judged_as_in_the_list_of_lines() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/profiles/lines.txt");
    let lines = std::fs::read_to_string(path).unwrap();
    let mut judged = 0;
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let (verdict, rest) = line.split_once(' ').unwrap();
        let (numbers, text) = match verdict {
            "good" => rest.split_once(' ').unwrap(),
            _ => ("", rest),
        };
        let parsed = parse(format!("tek-stack-profile 1\n{text}\n").as_bytes()).unwrap();
        assert_eq!(parsed.problems.len(), usize::from(verdict == "bad"), "{line}");
        assert_eq!(parsed.profile.kinds.len(), usize::from(verdict == "good"), "{line}");
        if let Some(kind) = parsed.profile.kinds.values().next() {
            // The library takes no size above 1 GiB.
            let [bound, overflow] = [kind.bound, kind.overflow].map(|bytes| bytes.min(1 << 30));
            assert_eq!(format!("{bound},{overflow},{}", kind.threads), numbers, "{line}");
        }
        judged += 1;
    }
    assert!(judged > 50);
}

#[test]
fn each_name_gives_its_label_of_the_list_of_labels() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/profiles/labels.txt");
    let lines = std::fs::read_to_string(path).unwrap();
    let cases = lines.lines().filter_map(|line| line.split_once('\t'));
    let judged = cases.filter(|(name, label)| {
        assert_eq!(Label::of_name(name.as_bytes()), Label::Name(label.as_bytes().to_vec()));
        true
    });
    assert!(judged.count() > 10);
    assert_eq!(Label::of_name(b""), Label::Name(Vec::new()));
}
