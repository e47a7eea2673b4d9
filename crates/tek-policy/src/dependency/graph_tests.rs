// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph against a computation of all waits from nothing, and properties of all lifts.
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type All = Graph<u32, u8>;

fn level(priority: u8) -> RtPriority {
    RtPriority::new(priority.into()).unwrap()
}

fn edge(waiter: u8, holder: u8, because: Because) -> Edge<u8> {
    Edge { waiter, holder, because, since_ns: 0 }
}

/// A task with this priority waits for the owner of a lock; 0: the task is not critical.
fn lock(all: &mut All, thing: u32, waiter: u8, priority: u8, holder: u8) {
    let own = RtPriority::new(priority.into());
    assert!(all.begin(thing, edge(waiter, holder, Because::Lock), own));
}

fn highest(all: &All, holder: u8) -> Option<u8> {
    all.summary(holder, Because::Lock).map(|summary| summary.highest.get())
}

#[test]
fn a_lift_goes_on_along_a_chain_and_ends_with_its_first_wait() {
    let mut all = All::new(0);
    lock(&mut all, 1, 1, 40, 2);
    lock(&mut all, 2, 2, 0, 3);
    assert_eq!((highest(&all, 2), highest(&all, 3)), (Some(40), Some(40)));
    lock(&mut all, 3, 9, 50, 2);
    assert_eq!(highest(&all, 3), Some(50));
    assert_eq!(all.summary(3, Because::Lock).unwrap().count, 2);
    all.end_now(3);
    assert_eq!(highest(&all, 3), Some(40));
    all.end_now(1);
    assert_eq!((highest(&all, 2), highest(&all, 3)), (None, None));
    assert_eq!(all.take_changed(), BTreeSet::from([2, 3]));
    all.end_now(2);
    assert_eq!((all.is_empty(), all.len()), (true, 0));
}

#[test]
fn the_chain_may_be_known_before_a_critical_task_waits_for_it() {
    let mut all = All::new(0);
    lock(&mut all, 2, 2, 0, 3);
    assert_eq!(highest(&all, 3), None);
    lock(&mut all, 1, 1, 40, 2);
    assert_eq!(highest(&all, 3), Some(40));
    all.set_own(1, RtPriority::new(20));
    assert_eq!(highest(&all, 3), Some(20));
    all.set_own(1, None);
    assert_eq!(highest(&all, 3), None);
}

#[test]
fn a_critical_task_that_waits_stands_for_itself_and_for_its_waiters() {
    let mut all = All::new(0);
    lock(&mut all, 1, 1, 20, 2);
    lock(&mut all, 2, 2, 30, 3);
    let summary = all.summary(3, Because::Lock).unwrap();
    assert_eq!((summary.count, summary.sum, summary.highest), (2, 50, level(30)));
    assert_eq!(all.roots(3, 9), [(2, level(30)), (1, level(20))]);
    assert_eq!(all.priority_of(2), Some(level(30)));
}

#[test]
fn kinds_of_waits_are_separate() {
    let mut all = All::new(20);
    all.begin(1, edge(1, 3, Because::Lock), Some(level(40)));
    all.begin(2, edge(2, 3, Because::Answer), Some(level(20)));
    all.begin(3, edge(4, 3, Because::Work), Some(level(10)));
    let of = |all: &All, because| all.summary(3, because).map(|it| it.highest.get());
    let kinds = |all: &All| Because::ALL.map(|because| of(all, because));
    assert_eq!(kinds(&all), [Some(10), Some(40), Some(20)]);
    for thing in [1, 2, 3] {
        all.end(thing, 5);
    }
    // Only work lingers.
    assert_eq!(kinds(&all), [Some(10), None, None]);
    assert_eq!((all.due(24), all.due(25)), (vec![], vec![3]));
    all.expire(25);
    assert!(all.is_empty());
}

#[test]
fn threads_that_wait_in_a_circle_are_not_lifted_and_are_named() {
    let mut all = All::new(0);
    lock(&mut all, 1, 1, 40, 2);
    lock(&mut all, 2, 2, 0, 3);
    lock(&mut all, 9, 9, 50, 2);
    assert!(all.circles().is_empty());
    lock(&mut all, 3, 3, 0, 1);
    assert_eq!(all.circles(), [vec![1, 2, 3]]);
    assert_eq!([1, 2, 3].map(|holder| highest(&all, holder)), [None; 3]);
    // One of them gives up.
    all.end_now(3);
    assert!(all.circles().is_empty());
    assert_eq!([1, 2, 3].map(|holder| highest(&all, holder)), [None, Some(50), Some(50)]);
    lock(&mut all, 4, 5, 30, 5);
    assert_eq!((all.circles(), highest(&all, 5)), (vec![vec![5]], None));
    all.forget_waiter(5);
    assert!(all.circles().is_empty());
}

#[test]
fn no_more_than_32_holders_of_a_chain_are_lifted() {
    let mut all = All::new(0);
    lock(&mut all, 0, 0, 40, 1);
    for waiter in 1..60 {
        lock(&mut all, waiter.into(), waiter, 0, waiter + 1);
    }
    let lifted = (0..=60).filter(|holder| highest(&all, *holder).is_some()).count();
    assert_eq!(lifted, usize::from(MOST_HOLDERS));
    // A nearer task does not need the whole chain.
    lock(&mut all, 99, 99, 10, 31);
    assert_eq!((highest(&all, 32), highest(&all, 33)), (Some(40), None));
    all.end_now(0);
    assert_eq!((highest(&all, 32), highest(&all, 60)), (Some(10), Some(10)));
}

#[test]
fn each_wait_at_the_end_of_the_longest_chain_is_counted_once() {
    let mut all = All::new(0);
    let waits = |too_deep| Refused { too_many: 0, too_deep };
    for waiter in 1..60 {
        lock(&mut all, waiter.into(), waiter, 0, waiter + 1);
    }
    assert_eq!(all.refused(), waits(0), "no critical task waits");
    lock(&mut all, 0, 0, 40, 1);
    assert_eq!(all.refused(), waits(1));
    all.set_own(0, Some(level(50)));
    lock(&mut all, 99, 99, 10, 31);
    assert_eq!(all.refused(), waits(1), "it is the same wait");
    all.end_now(0);
    assert_eq!(all.refused(), waits(1));
    lock(&mut all, 0, 0, 40, 1);
    assert_eq!(all.refused(), waits(2));
    // The last holder waits no more, and then again.
    all.end_now(32);
    lock(&mut all, 32, 32, 0, 33);
    assert_eq!(all.refused(), waits(3));
}

#[test]
fn there_is_a_highest_number_of_waits() {
    let mut all: Graph<u32, u32> = Graph::new(0);
    let own = Some(level(40));
    let edge = |waiter| Edge { waiter, holder: 0, because: Because::Lock, since_ns: 0 };
    let begun = (1..20_000).filter(|waiter| all.begin(*waiter, edge(*waiter), own)).count();
    assert_eq!((begun, all.len()), (MOST_EDGES, MOST_EDGES));
    assert_eq!(all.refused(), Refused { too_many: 19_999 - 16_384, too_deep: 0 });
    assert_eq!(all.summary(0, Because::Lock).unwrap().count, 16_384);
    (1..20_000).for_each(|thing| all.end_now(thing));
    assert!(all.is_empty());
}

#[test]
fn ten_thousand_waiters_of_a_holder_in_a_chain_cost_no_search_each() {
    let mut all: Graph<u32, u32> = Graph::new(0);
    let edge = |waiter, holder| Edge { waiter, holder, because: Because::Lock, since_ns: 0 };
    all.begin(0, edge(1, 2), None);
    let began = std::time::Instant::now();
    for waiter in 10..10_010 {
        all.begin(waiter, edge(waiter, 1), RtPriority::new(1 + waiter % 99));
    }
    let summary = all.summary(2, Because::Lock).unwrap();
    assert_eq!((summary.count, summary.highest.get()), (10_000, 99));
    for waiter in 10..10_010 {
        all.end_now(waiter);
    }
    // With a search of all waiters for each event it would be minutes.
    assert!(began.elapsed().as_secs() < 20);
    assert_eq!(all.summary(2, Because::Lock), None);
}

#[test]
fn a_holder_with_another_identity_has_no_waiters() {
    let mut all = All::new(20);
    all.begin(1, edge(1, 3, Because::Work), Some(level(40)));
    all.begin(2, edge(2, 3, Because::Work), Some(level(10)));
    all.end(2, 0);
    all.forget_holder(3);
    assert!(all.is_empty() && all.summary(3, Because::Work).is_none());
}

/// One change of the waits.
#[derive(Clone, Debug)]
enum Event {
    Begin { thing: u32, waiter: u8, holder: u8, because: Because },
    Own(u8, u8),
    End(u32),
    EndOf(u32, u8),
    ForgetWaiter(u8),
    ForgetHolder(u8),
}

const THREADS: u8 = 7;

fn event() -> impl Strategy<Value = Event> {
    let because = prop::sample::select(vec![Because::Lock, Because::Answer, Because::Work]);
    prop_oneof![
        8 => (0u32..12, 0..THREADS, 0..THREADS, because).prop_map(
            |(thing, waiter, holder, because)| Event::Begin { thing, waiter, holder, because }
        ),
        2 => (0..THREADS, 0u8..=99).prop_map(|(waiter, own)| Event::Own(waiter, own)),
        4 => (0u32..12).prop_map(Event::End),
        2 => (0u32..12, 0..THREADS).prop_map(|(thing, holder)| Event::EndOf(thing, holder)),
        1 => (0..THREADS).prop_map(Event::ForgetWaiter),
        1 => (0..THREADS).prop_map(Event::ForgetHolder),
    ]
}

/// All waits as a list, from which everything is computed anew.
#[derive(Clone, Debug, Default)]
struct Naive {
    own: BTreeMap<u8, u8>,
    edges: Vec<(u32, Edge<u8>)>,
}

impl Naive {
    fn reaches(&self, from: u8, to: u8) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            for (_, edge) in self.edges.iter().filter(|(_, edge)| edge.waiter == at) {
                if edge.holder == to {
                    return true;
                }
                if seen.insert(edge.holder) {
                    left.push(edge.holder);
                }
            }
        }
        false
    }

    /// All tasks that wait for a thread in this way, each with the number of holders before it.
    fn tasks(&self, holder: u8, because: Option<Because>) -> Vec<(u8, u8)> {
        if self.reaches(holder, holder) {
            return Vec::new();
        }
        let is_its = |edge: &Edge<u8>| {
            edge.holder == holder && because.is_none_or(|because| edge.because == because)
        };
        let mut found = Vec::new();
        for (_, edge) in self.edges.iter().filter(|(_, edge)| is_its(edge)) {
            let own = self.own.get(&edge.waiter).filter(|own| **own > 0);
            let mut of_one: Vec<(u8, u8)> = own.map(|own| (*own, 0)).into_iter().collect();
            let behind = self.tasks(edge.waiter, None);
            let depth = behind.iter().map(|it| it.1).max().unwrap_or(0) + 1;
            of_one.extend(behind.iter().map(|it| (it.0, depth)));
            found.extend(of_one);
        }
        found
    }

    fn summary(&self, holder: u8, because: Because) -> Option<Summary> {
        let tasks = self.tasks(holder, Some(because));
        let highest = tasks.iter().map(|it| it.0).max()?;
        let sum = tasks.iter().map(|it| u64::from(it.0)).sum();
        Some(Summary { count: tasks.len() as u64, sum, highest: level(highest) })
    }

    fn apply(&mut self, event: &Event, all: &mut All) {
        match *event {
            Event::Begin { thing, waiter, holder, because } => {
                let new = edge(waiter, holder, because);
                let own = self.own.get(&waiter).copied().unwrap_or(0);
                assert!(all.begin(thing, new, RtPriority::new(own.into())));
                let is_same = |it: &(u32, Edge<u8>)| {
                    it.0 == thing && it.1.waiter == waiter && it.1.holder == holder
                };
                if !self.edges.iter().any(is_same) {
                    self.edges.push((thing, new));
                }
            }
            Event::Own(waiter, own) => {
                self.own.insert(waiter, own);
                all.set_own(waiter, RtPriority::new(own.into()));
            }
            Event::End(thing) => {
                self.edges.retain(|it| it.0 != thing);
                all.end(thing, 0);
            }
            Event::EndOf(thing, holder) => {
                self.edges.retain(|it| it.0 != thing || it.1.holder != holder);
                all.end_those(thing, |edge| edge.holder == holder);
            }
            Event::ForgetWaiter(waiter) => {
                self.edges.retain(|it| it.1.waiter != waiter);
                self.own.remove(&waiter);
                all.forget_waiter(waiter);
            }
            Event::ForgetHolder(holder) => {
                self.edges.retain(|it| it.1.holder != holder);
                all.forget_holder(holder);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_updated_graph_equals_a_computation_from_nothing(
        events in prop::collection::vec(event(), 0..60),
    ) {
        let (mut all, mut naive) = (All::new(0), Naive::default());
        let mut seen: BTreeMap<(u8, usize), Option<Summary>> = BTreeMap::new();
        for event in &events {
            naive.apply(event, &mut all);
            let changed = all.take_changed();
            for holder in 0..THREADS {
                for (n, because) in Because::ALL.into_iter().enumerate() {
                    let now = all.summary(holder, because);
                    prop_assert_eq!(now, naive.summary(holder, because), "{} {:?}", holder, event);
                    // Each changed lift is reported.
                    let before = seen.insert((holder, n), now).flatten();
                    prop_assert!(before == now || changed.contains(&holder), "{} silent", holder);
                }
            }
            prop_assert_eq!(all.len(), naive.edges.len());
            let in_circles: BTreeSet<u8> = all.circles().into_iter().flatten().collect();
            let circular = (0..THREADS).filter(|it| naive.reaches(*it, *it));
            prop_assert_eq!(in_circles, circular.collect::<BTreeSet<u8>>());
        }
        (0..12).for_each(|thing| all.end_now(thing));
        prop_assert!(all.is_empty() && all.circles().is_empty());
    }

    #[test]
    fn no_lift_is_above_the_waiters_and_none_is_without_a_waiter(
        events in prop::collection::vec(event(), 0..60),
    ) {
        let (mut all, mut naive) = (All::new(0), Naive::default());
        for event in &events {
            naive.apply(event, &mut all);
            for holder in 0..THREADS {
                for because in Because::ALL {
                    for equation in [LiftEquation::OWNER, LiftEquation::SERVER] {
                        let lifted = equation.priority(all.summary(holder, because));
                        let most = naive.tasks(holder, Some(because)).iter().map(|it| it.0).max();
                        prop_assert!(lifted.map(RtPriority::get) <= most);
                    }
                }
                let roots = all.roots(holder, 99);
                prop_assert!(!roots.iter().any(|root| !naive.own.contains_key(&root.0)));
            }
        }
    }

    #[test]
    fn the_order_of_events_does_not_matter(
        own in prop::collection::vec(0u8..=99, THREADS as usize),
        (waits, other) in prop::collection::vec((0..THREADS, 0..THREADS), 0..20)
            .prop_flat_map(|all| {
                let all: Vec<_> = all.into_iter().enumerate().collect();
                (Just(all.clone()), Just(all).prop_shuffle())
            }),
    ) {
        let of = |waits: &[(usize, (u8, u8))]| {
            let mut all = All::new(0);
            for (thing, (waiter, holder)) in waits {
                let own = RtPriority::new(own[usize::from(*waiter)].into());
                all.begin(*thing as u32, edge(*waiter, *holder, Because::Lock), own);
            }
            (0..THREADS).map(|holder| all.summary(holder, Because::Lock)).collect::<Vec<_>>()
        };
        prop_assert_eq!(of(&waits), of(&other));
    }
}
