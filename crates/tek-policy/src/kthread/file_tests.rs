// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of `[kthreads]`.
use super::*;
use crate::read_configuration;
use proptest::prelude::*;

fn read(text: &str) -> KthreadSettings {
    read_configuration(text, "tekd.toml").unwrap().kthreads.unwrap()
}

fn complaint(text: &str) -> String {
    read_configuration(text, "tekd.toml").unwrap_err().to_string()
}

fn weight(thousandths: u32) -> Weight {
    Weight::from_thousandths(thousandths).unwrap()
}

#[test]
fn without_the_table_no_kernel_thread_is_changed() {
    assert_eq!(read_configuration("", "tekd.toml").unwrap().kthreads, None);
    assert_eq!(read("[kthreads]"), KthreadSettings::default());
}

#[test]
fn the_defaults_are_those_of_the_paper() {
    let usual = read("[kthreads]");
    let of = |class| usual.weight_of(class, None);
    assert_eq!([Class::Irq, Class::Softirq].map(of), [Some(Weight::DIRECT); 2]);
    let remaining = &Class::NAMED[2..];
    assert!(remaining.iter().all(|class| of(*class) == Some(Weight::INDIRECT)));
    assert_eq!([Class::Untouchable, Class::Unknown].map(of), [None; 2]);
    assert_eq!((usual.method, usual.linger_ns()), (Method::Weighted, 20_000_000));
    assert_eq!((usual.changes_per_second, usual.priority), (1000, 98));
}

#[test]
fn the_file_that_is_installed_shows_the_defaults() {
    let installed = include_str!("../../../../data/tekd.toml");
    let (_, table) = installed.split_once("# [kthreads]\n").unwrap();
    let lines: Vec<_> = table.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    assert_eq!(lines.len(), 8);
    assert_eq!(read(&format!("[kthreads]\n{}", lines.join("\n"))), KthreadSettings::default());
}

#[test]
fn every_key_is_taken() {
    let all = read(
        "[kthreads]\nmethod = \"plain\"\nlinger_ms = 0\nchanges_per_second = 100000\npriority = \
         70\nweights = { irq = 2, softirq = 0.1, writeback = 1, kswapd = 10, kcompactd = 0.125, \
         worker = 0.5, io_uring = 1.2, kthreadd = 0.9 }\nfunctions = { wb_workfn = 1.5, \
         \"kblockd_fn.llvm.1\" = 2.5 }\noff = [\"irq\", \"kswapd\"]\nprotected = [\"irq/24*\", \
         \"kworker/u9:*\"]",
    );
    assert_eq!(
        (all.method, all.linger, all.changes_per_second, all.priority),
        (Method::Plain, Duration::ZERO, 100_000, 70)
    );
    let of = |class| all.weight_of(class, None).map(Weight::thousandths);
    assert_eq!(
        Class::NAMED.map(of),
        [None, Some(100), Some(1000), None, Some(125), Some(500), Some(1200), Some(900), Some(800)]
    );
    assert!(all.protects("irq/24-ACPI:Ged") && !all.protects("irq/25-ACPI:Ged"));
    let sections = read("[kthreads.weights]\nirq = 1.5\n[kthreads.functions]\nwb_workfn = 2");
    assert_eq!(
        (sections.weights.irq, sections.functions["wb_workfn"]),
        (weight(1500), weight(2000))
    );
}

#[test]
fn a_function_has_its_own_weight_but_not_where_its_class_is_left_alone() {
    let all = read(
        "[kthreads]\noff = [\"writeback\"]\n[kthreads.functions]\nwb_workfn = 2\nflush_fn = \
         3\n\"a_fn.part.0\" = 4",
    );
    let of = |class, function| all.weight_of(class, Some(function)).map(Weight::thousandths);
    assert_eq!(of(Class::Writeback, "wb_workfn"), None);
    assert_eq!(of(Class::Worker, "flush_fn.llvm.7"), Some(3000));
    assert_eq!(of(Class::Worker, "a_fn.part.0"), Some(4000));
    assert_eq!((of(Class::Worker, "a_fn"), of(Class::Worker, "b_fn")), (Some(800), Some(800)));
}

#[test]
fn a_mistake_is_reported_with_its_place_and_what_to_write() {
    let cases = [
        ("linger = 5", "2:1", "unknown field `linger`"),
        ("linger_ms = 1001", "2:13", "0 to 1000"),
        ("linger_ms = -1", "2:13", "0 to 1000"),
        ("linger_ms = 2.5", "2:13", "a whole number, 0 to 1000"),
        ("changes_per_second = 0", "2:22", "1 to 100000"),
        ("priority = 100", "2:12", "1 to 99"),
        ("method = \"pip\"", "2:10", "`plain` or `weighted`"),
        ("weights = { irq = 0 }", "2:19", "0.1 to 10"),
        ("weights = { irq = 10.5 }", "2:19", "0.1 to 10"),
        ("weights = { irq = 0.8123 }", "2:19", "three digits"),
        ("weights = { irq = nan }", "2:19", "0.1 to 10"),
        ("weights = { irq = \"1\" }", "2:19", "a weight, 0.1 to 10"),
        ("weights = { pdflush = 1 }", "2:13", "unknown field `pdflush`"),
        ("functions = { \"a b\" = 1 }", "2:15", "/proc/kallsyms"),
        ("functions = { \"\" = 1 }", "2:15", "/proc/kallsyms"),
        ("functions = { x = 11 }", "2:19", "0.1 to 10"),
        ("off = [\"rcu\"]", "2:7", "irq, softirq, writeback"),
        ("off = [\"untouchable\"]", "2:7", "irq, softirq, writeback"),
        ("off = \"irq\"", "2:7", "sequence"),
        ("protected = [\"\"]", "2:13", "the pattern is empty"),
    ];
    for (text, place, wanted) in cases {
        let reported = complaint(&format!("[kthreads]\n{text}"));
        assert!(reported.starts_with(&format!("tekd.toml:{place}: ")), "{text}: {reported}");
        assert!(reported.contains(wanted), "{text}: {reported}");
    }
    let wanted = "expected a table: write [kthreads], in single brackets";
    for (text, column) in [("[[kthreads]]\nlinger_ms = 5", 1), ("kthreads = [\"plain\"]", 12)] {
        let reported = complaint(text);
        assert!(reported.starts_with(&format!("tekd.toml:1:{column}: ")), "{reported}");
        assert!(reported.contains(wanted), "{reported}");
    }
    assert!(complaint("kthreads = true").starts_with("tekd.toml:1:12: "));
}

#[test]
fn it_is_described_in_sentences() {
    let text = read("[kthreads]").to_string();
    assert_eq!(
        text,
        "Threads of the kernel have the mean priority of the tasks that wait for them, times a \
         weight, and 20 ms longer; at most 1000 changes a second.\nTheir weights: irq 1.2, softirq \
         1.2, writeback 0.8, kswapd 0.8, kcompactd 0.8, worker 0.8, io_uring 0.8, kthreadd 0.8, \
         holder 0.8.\n"
    );
    let text = read(
        "[kthreads]\nmethod = \"plain\"\noff = [\"irq\", \"kswapd\"]\nprotected = [\"irq/24*\"]",
    )
    .to_string();
    assert!(text.contains("the highest priority") && !text.contains("weights"), "{text}");
    assert!(text.ends_with("Unchanged: all of irq, kswapd.\nUnchanged: threads named irq/24*.\n"));
}

proptest! {
    #[test]
    fn nothing_like_the_table_makes_the_reader_stumble(
        lines in prop::collection::vec(
            concat!(
                r"(\[\[?kthreads(\.weights|\.functions)?\]?\]|method|linger_ms|changes_per_second",
                r"|priority|weights|functions|off|protected|irq|softirq|worker|wb_workfn|x)",
                r#"( = ?(-?[0-9]{1,9}(\.[0-9]{0,5})?|nan|inf|"(plain|weighted|irq|[-a-z*/]{0,5})""#,
                r#"|\["?(irq|worker|[a-z]{0,4})"?\]|\{ ?(irq|wb_workfn|x) ?= ?[0-9.]{1,5} ?\}))?"#,
            ),
            0..8,
        ),
    ) {
        let text = format!("[kthreads]\n{}", lines.join("\n"));
        for text in [text, lines.join("\n")] {
            let Ok(configuration) = read_configuration(text, "f") else { continue };
            let Some(settings) = configuration.kthreads else { continue };
            prop_assert!(settings.linger <= Duration::from_secs(1));
            prop_assert!((1..=100_000).contains(&settings.changes_per_second));
            let weights = Class::NAMED.into_iter().filter_map(|class| settings.weights.of(class));
            for weight in weights.chain(settings.functions.values().copied()) {
                prop_assert!((100..=10_000).contains(&weight.thousandths()));
            }
            prop_assert!(settings.to_string().ends_with(".\n"));
        }
    }

    #[test]
    fn what_is_in_range_is_taken(
        linger in 0u32..=1000, rate in 1u32..=100_000, thousandths in 100u32..=10_000,
    ) {
        let weight = weight(thousandths);
        let text = format!(
            "[kthreads]\nlinger_ms = {linger}\nchanges_per_second = {rate}\n\
             weights = {{ kswapd = {weight} }}"
        );
        let settings = read(&text);
        prop_assert_eq!(settings.linger_ns(), u64::from(linger) * 1_000_000);
        prop_assert_eq!((settings.changes_per_second, settings.weights.kswapd), (rate, weight));
    }
}
