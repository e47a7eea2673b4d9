// SPDX-License-Identifier: MIT OR Apache-2.0
//! From watched threads to kinds of threads, each with a rule or the reason why not.
use super::clock::Waker;
use super::evidence::{measure, Evidence};
use super::kind::{glob_of, kind_of};
use super::verdict::{is_soon_done, why_not, Reason, Thresholds};
use super::window::Window;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tek_policy::{decide, Facts, Glob, Invalid, Match, Rule, Set, Subject};

/// If the pattern of a kind would match other threads too, the kind is named thread by thread, up
/// to so many threads: there can be 64 rules in all.
const MOST_NAMES: usize = 8;

/// A program without TEK is known only by its first thread's name, which Linux cuts to this.
const CUT_BYTES: usize = 15;

/// A thread that was watched.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Its program, as rules name it.
    pub program: String,
    /// Whether that is certainly the whole name, because it is from the program's table.
    pub whole_program: bool,
    /// Its name.
    pub name: String,
    /// Whether that name is its own, and not inherited from its creator.
    pub named: bool,
    /// The symbol of its function, as rules match it, if known.
    pub function: Option<String>,
    /// The same for people.
    pub runs: Option<String>,
    /// Whether it was real-time when it was last seen.
    pub real_time: bool,
    /// The waker of the thread.
    pub waker: Waker,
    /// Its activity.
    pub windows: Vec<Window>,
    /// How long it slept in addition.
    pub asleep_ns: u64,
}

/// Threads of one kind, and their verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    /// Their program.
    pub program: String,
    /// Their name: the pattern of their names, or the name that they inherited.
    pub thread: String,
    /// Whether that is their own.
    pub named: bool,
    /// Their function, if known, and the same for all.
    pub runs: Option<String>,
    /// How many there were.
    pub threads: usize,
    /// Their activity.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Why they are not suggested; `None`: they are.
    pub reason: Option<Reason>,
    /// The rules for those that are suggested, or perhaps are time-critical.
    #[serde(skip)]
    pub rules: Vec<Rule>,
}

/// How rules distinguish threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// By their names, which differ in numbers only.
    Name(String),
    /// By their function, for want of a name.
    Function(String),
    /// Not at all, but people may know the function.
    Nothing(Option<String>),
}

fn mark_of(thread: &Watched) -> Mark {
    match &thread.function {
        _ if thread.named => Mark::Name(kind_of(&thread.name)),
        Some(function) => Mark::Function(function.clone()),
        None => Mark::Nothing(thread.runs.clone()),
    }
}

/// Judges them, the suggested ones first, then those that perhaps are time-critical.
pub fn plan(threads: &[Watched], borders: &Thresholds) -> Vec<Kind> {
    let mut groups = BTreeMap::<(&str, Mark), Vec<&Watched>>::new();
    for thread in threads {
        groups.entry((&thread.program, mark_of(thread))).or_default().push(thread);
    }
    let evidence: Vec<_> = groups.values().map(|members| evidence_of(members)).collect();
    let mut kinds: Vec<_> = groups
        .iter()
        .enumerate()
        .map(|(own, ((program, mark), members))| {
            let rest = groups.keys().zip(&evidence).enumerate();
            let rest = rest.filter(|(other, ((their, _), _))| *other != own && their == program);
            let waited = waited_for(rest.map(|(_, (_, evidence))| evidence), borders);
            judge(program, mark, members, evidence[own].clone().held_up(waited), borders)
        })
        .collect();
    // Only now the threads that a pattern must not match are known.
    let meant: BTreeSet<_> = groups
        .keys()
        .zip(&kinds)
        .filter(|(_, kind)| kind.reason.is_none())
        .map(|(key, _)| key)
        .cloned()
        .collect();
    let rest: Vec<_> = threads
        .iter()
        .filter(|thread| !meant.contains(&(thread.program.as_str(), mark_of(thread))))
        .collect();
    for (kind, (key, members)) in kinds.iter_mut().zip(&groups) {
        if kind.rules.is_empty() {
            continue;
        }
        // Each kind that is perhaps time-critical is decided by itself.
        let is_other = |thread: &&Watched| (thread.program.as_str(), mark_of(thread)) != *key;
        let rest: Vec<_> = rest.iter().copied().filter(is_other).collect();
        narrow(kind, members, &rest);
    }
    tek_sort::by_key(&mut kinds, |kind| {
        let rank = match kind.reason {
            None => 0,
            Some(Reason::WokenEvenly) => 1,
            Some(_) => 2,
        };
        (rank, kind.evidence.cpu_per_wakeup_ns)
    });
    kinds
}

fn evidence_of(members: &[&Watched]) -> Evidence {
    let windows: Vec<_> = members.iter().flat_map(|thread| &thread.windows).copied().collect();
    let asleep_ns = members.iter().map(|thread| thread.asleep_ns).sum();
    measure(&windows, asleep_ns, waker_of(members))
}

/// The share of the time in which one of these threads waited for a CPU and so delayed the wake-ups
/// of further threads. A thread that a clock wakes, or that runs for long, is taken to wake no
/// thread.
fn waited_for<'a>(rest: impl Iterator<Item = &'a Evidence>, borders: &Thresholds) -> f64 {
    let wakes = rest.filter(|other| !other.periodic && is_soon_done(other, borders));
    wakes.map(|other| other.delay_share).fold(0.0, f64::max)
}

fn judge(
    program: &str,
    mark: &Mark,
    members: &[&Watched],
    evidence: Evidence,
    borders: &Thresholds,
) -> Kind {
    let first = members[0];
    let same = members.iter().all(|thread| thread.runs == first.runs);
    let rule = rule_for(program, mark, members);
    let reason = why_not(&evidence, borders).or(match &rule {
        _ if members.iter().all(|thread| thread.real_time) => Some(Reason::RealTime),
        Ok(Some(_)) => evidence.periodic.then_some(Reason::WokenEvenly),
        Ok(None) => Some(Reason::NoName),
        Err(_) => Some(Reason::OddName),
    });
    let glob = rule.as_ref().ok().and_then(|rule| rule.as_ref()?.matches.thread.as_ref());
    let thread = glob.map_or_else(|| first.name.clone(), ToString::to_string);
    Kind {
        program: program.to_owned(),
        thread,
        named: first.named,
        runs: same.then(|| first.runs.clone()).flatten(),
        threads: members.len(),
        evidence,
        rules: match reason {
            None | Some(Reason::WokenEvenly) => rule.ok().flatten().into_iter().collect(),
            _ => vec![],
        },
        reason,
    }
}

/// The waker of threads of one kind: events, if they wake one of them, or else the fastest clock.
fn waker_of(members: &[&Watched]) -> Waker {
    let rank = |waker: &Waker| match waker {
        Waker::Unknown => (0, 0),
        Waker::Clock(period_ns) => (1, u64::MAX - period_ns),
        Waker::Events => (2, 0),
    };
    members.iter().map(|thread| thread.waker).max_by_key(rank).unwrap_or_default()
}

fn rule_for(program: &str, mark: &Mark, members: &[&Watched]) -> Result<Option<Rule>, Invalid> {
    let names = || members.iter().map(|thread| thread.name.clone()).collect::<BTreeSet<_>>();
    let (thread, function) = match mark {
        Mark::Name(_) => (Some(glob_of(&names())?), None),
        Mark::Function(function) => (None, Some(Glob::exactly(function, Subject::Function)?)),
        Mark::Nothing(_) => return Ok(None),
    };
    Ok(Some(critical(program_of(program, members)?, thread, function)))
}

/// The pattern for the program of these threads.
fn program_of(name: &str, members: &[&Watched]) -> Result<Glob, Invalid> {
    let exact = Glob::exactly(name, Subject::Program)?;
    if name.len() != CUT_BYTES || members.iter().all(|thread| thread.whole_program) {
        return Ok(exact);
    }
    Glob::new(&format!("{exact}*"), Subject::Program)
}

fn critical(program: Glob, thread: Option<Glob>, function: Option<Glob>) -> Rule {
    Rule {
        matches: Match { program: Some(program), thread, function, ..Match::default() },
        set: Set { critical: Some(true), ..Set::default() },
        source: String::new(),
    }
}

/// Ensures that the rules match no other thread: names threads one by one if need be, and suggests
/// nothing if that does not help.
fn narrow(kind: &mut Kind, members: &[&Watched], rest: &[&Watched]) {
    let covers_rest = |rules: &[Rule]| rest.iter().any(|other| covers(rules, other));
    if !covers_rest(&kind.rules) {
        return;
    }
    let names: BTreeSet<_> = members.iter().map(|thread| &thread.name).collect();
    let exact = |name: &&String| {
        let program = program_of(&kind.program, members).ok()?;
        Some(critical(program, Some(Glob::exactly(name, Subject::Thread).ok()?), None))
    };
    kind.rules = names.iter().take(MOST_NAMES).filter_map(exact).collect();
    if !kind.named || kind.rules.len() < names.len() || covers_rest(&kind.rules) {
        kind.rules.clear();
        kind.reason = Some(Reason::NoName);
    }
}

/// Whether rules make a thread time-critical.
pub fn covers(rules: &[Rule], thread: &Watched) -> bool {
    let facts = Facts {
        program: thread.program.as_bytes(),
        thread: thread.named.then_some(thread.name.as_bytes()),
        function: thread.function.as_ref().map(String::as_bytes),
        role: None,
    };
    decide(rules, &facts).critical.is_some_and(|critical| critical.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BORDERS: Thresholds =
        Thresholds { min_rate: 2.0, max_rate: 1000.0, max_burst: 50.0, max_share: 50.0 };

    fn thread(name: &str, wakeups: u64, cpu_ns: u64) -> Watched {
        let window = Window {
            time_ns: 1_000_000_000,
            wakeups,
            cpu_ns,
            burst_ns: cpu_ns / wakeups.max(1),
            ..Window::default()
        };
        Watched {
            program: "fridge".into(),
            name: name.into(),
            named: true,
            windows: vec![window; 5],
            ..Watched::default()
        }
    }

    fn brief(name: &str) -> Watched {
        thread(name, 7, 1_000_000)
    }

    fn hog(name: &str) -> Watched {
        thread(name, 0, 990_000_000)
    }

    #[test]
    fn threads_of_one_kind_get_one_rule_and_hogs_get_none() {
        let threads = [brief("touch"), brief("io-1"), brief("io-2"), hog("media0"), hog("media1")];
        let kinds = plan(&threads, &BORDERS);
        let suggested: Vec<_> = kinds.iter().filter(|kind| kind.reason.is_none()).collect();
        assert_eq!(suggested.len(), 2);
        assert_eq!(suggested[0].thread, "io-[0-9]*");
        assert_eq!((suggested[0].threads, suggested[1].threads), (2, 1));
        assert_eq!(kinds[2].reason, Some(Reason::CpuBound));
        assert_eq!(kinds[2].threads, 2);
    }

    #[test]
    fn a_pattern_that_would_mean_a_hog_is_written_out() {
        let threads = [brief("io1"), brief("io2"), hog("io1-scan")];
        let rules: Vec<_> =
            plan(&threads, &BORDERS).into_iter().flat_map(|kind| kind.rules).collect();
        assert_eq!(rules.len(), 2);
        assert!(covers(&rules, &threads[0]) && covers(&rules, &threads[1]));
        assert!(!covers(&rules, &threads[2]));
    }

    #[test]
    fn a_thread_without_a_name_of_its_own_is_meant_by_what_it_runs() {
        let nameless = |function: Option<&str>| Watched {
            named: false,
            function: function.map(str::to_owned),
            ..brief("fridge")
        };
        let kinds = plan(&[nameless(Some("gas_main")), nameless(None)], &BORDERS);
        assert_eq!(kinds[0].rules[0].matches.function.as_ref().unwrap().as_str(), "gas_main");
        assert_eq!(kinds[1].reason, Some(Reason::NoName));
    }

    #[test]
    fn a_program_whose_name_may_have_been_cut_is_meant_by_its_beginning() {
        let threads = [Watched { program: "fifteen-bytes-l".into(), ..brief("touch") }];
        let rules = plan(&threads, &BORDERS).remove(0).rules;
        let whole = Watched { program: "fifteen-bytes-long".into(), ..threads[0].clone() };
        assert!(covers(&rules, &threads[0]) && covers(&rules, &whole));
        // Under TEK its table has the whole name.
        let threads = [Watched { whole_program: true, ..threads[0].clone() }];
        let rules = plan(&threads, &BORDERS).remove(0).rules;
        assert!(covers(&rules, &threads[0]) && !covers(&rules, &whole));
    }

    #[test]
    fn a_function_that_hogs_run_too_is_no_rule() {
        let run = |thread: Watched| Watched { function: Some("thread_main".into()), ..thread };
        let threads = [run(Watched { named: false, ..brief("fridge") }), run(hog("media"))];
        let kinds = plan(&threads, &BORDERS);
        assert!(kinds.iter().all(|kind| kind.rules.is_empty()));
        assert!(kinds.iter().any(|kind| kind.reason == Some(Reason::NoName)));
    }

    #[test]
    fn a_thread_that_is_real_time_already_needs_no_rule() {
        let threads = [Watched { real_time: true, ..brief("audio") }];
        assert_eq!(plan(&threads, &BORDERS)[0].reason, Some(Reason::RealTime));
    }

    fn clock(name: &str) -> Watched {
        thread(name, 20, 1_000_000)
    }

    #[test]
    fn a_thread_that_a_clock_wakes_is_perhaps_time_critical() {
        let kinds = plan(&[clock("sensor"), hog("media"), brief("touch")], &BORDERS);
        let reasons: Vec<_> = kinds.iter().map(|kind| kind.reason).collect();
        assert_eq!(reasons, [None, Some(Reason::WokenEvenly), Some(Reason::CpuBound)]);
        assert!(covers(&kinds[1].rules, &clock("sensor")));
        let threads = [Watched { real_time: true, ..clock("audio") }];
        assert_eq!(plan(&threads, &BORDERS)[0].reason, Some(Reason::RealTime));
    }

    #[test]
    fn a_thread_that_is_woken_seldom_because_other_threads_wait_for_a_cpu_is_suggested_all_the_same(
    ) {
        // An event a second: most of that time ui waits for a CPU, and touch for ui.
        let second = Window { time_ns: 1_000_000_000, wakeups: 1, ..Window::default() };
        let touch = Window { cpu_ns: 100_000, burst_ns: 100_000, ..second };
        let ui = Window { cpu_ns: 9_000_000, burst_ns: 9_000_000, delay_ns: 700_000_000, ..second };
        let live = |name, window| Watched { windows: vec![window; 24], ..brief(name) };
        let tick = Watched { waker: Waker::Clock(1_000_000_000), ..live("tick", touch) };
        let reasons = |threads: &[Watched]| {
            let kinds = plan(threads, &BORDERS).into_iter();
            kinds.map(|kind| (kind.thread, kind.reason)).collect::<BTreeMap<_, _>>()
        };
        let pair = reasons(&[live("touch", touch), live("ui", ui), tick.clone()]);
        assert_eq!((pair["touch"], pair["ui"]), (None, None));
        assert_eq!(pair["tick"], Some(Reason::RarelyWoken));
        assert_eq!(reasons(&[live("touch", touch), tick])["touch"], Some(Reason::RarelyWoken));
    }

    #[test]
    fn a_rule_that_is_in_force_matches_no_thread_that_perhaps_has_one() {
        let threads = [brief("io1"), brief("io2"), clock("io1-tick")];
        let kinds = plan(&threads, &BORDERS);
        assert_eq!((kinds[0].rules.len(), kinds[1].rules.len()), (2, 1));
        assert!(!covers(&kinds[0].rules, &threads[2]));
        assert!(covers(&kinds[1].rules, &threads[2]) && !covers(&kinds[1].rules, &threads[0]));
    }

    proptest! {
        #[test]
        fn the_rules_mean_all_that_is_suggested_and_nothing_else(
            threads in proptest::collection::vec(
                (r"[ab]{1,2}[0-9]{0,2}[ab]?", any::<bool>(), proptest::option::of("[fg]")), 1..8,
            ),
        ) {
            let threads: Vec<_> = threads
                .iter()
                .map(|(name, is_hog, function)| Watched {
                    named: function.is_none(),
                    // Two threads in three run one of two functions, named or not.
                    function: function.clone().or((name.len() > 2).then(|| "f".to_owned())),
                    ..if *is_hog { hog(name) } else { brief(name) }
                })
                .collect();
            let kinds = plan(&threads, &BORDERS);
            let rules: Vec<_> = kinds.iter().flat_map(|kind| kind.rules.clone()).collect();
            let suggested = kinds.iter().filter(|kind| kind.reason.is_none());
            let meant = threads.iter().filter(|thread| covers(&rules, thread)).count();
            prop_assert_eq!(meant, suggested.map(|kind| kind.threads).sum::<usize>());
        }
    }
}
