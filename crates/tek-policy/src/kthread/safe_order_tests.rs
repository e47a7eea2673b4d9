// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the order of irq_work, RCU and ksoftirqd.
use super::*;
use crate::dependency::RtPriority;
use proptest::prelude::*;

fn level(level: u32) -> Option<RtPriority> {
    RtPriority::new(level)
}

fn demand(priority: u32, highest: u32) -> Option<Demand> {
    Some(Demand { priority: level(priority)?, highest: level(highest)? })
}

fn thread(id: usize, rank: Rank, usual: u32) -> Ordered<usize> {
    Ordered { id, rank, usual: level(usual), now: level(usual), demand: None }
}

/// The threads of one CPU on Debian's PREEMPT_RT kernel.
fn preempt_rt() -> Vec<Ordered<usize>> {
    vec![
        thread(0, Rank::Softirq, 0), // ksoftirqd
        thread(1, Rank::Softirq, 1), // ktimers
        thread(2, Rank::Rcu, 1),     // rcu_preempt
        thread(3, Rank::Rcu, 1),     // rcuc
        thread(4, Rank::IrqWork, 1),
        thread(5, Rank::RcuBeside, 0), // rcuop
    ]
}

fn steps(threads: &[Ordered<usize>]) -> Vec<(usize, u8)> {
    plan(threads).steps.iter().map(|it| (it.id, it.then.map_or(0, RtPriority::get))).collect()
}

fn carry_out(threads: &mut [Ordered<usize>]) {
    for step in plan(threads).steps {
        threads.iter_mut().find(|it| it.id == step.id).unwrap().now = step.then;
    }
}

#[test]
fn names_of_threads_have_their_ranks() {
    let of = |names: &[&str]| names.iter().map(|name| Rank::of_name(name)).collect::<Vec<_>>();
    assert_eq!(of(&["ksoftirqd/0", "ktimers/12"]), [Some(Rank::Softirq); 2]);
    assert_eq!(of(&["rcu_preempt", "rcuc/0", "rcub/1"]), [Some(Rank::Rcu); 3]);
    assert_eq!(
        of(&["rcuop/0", "rcuog/0", "rcu_exp_gp_kthread_worker"]),
        [Some(Rank::RcuBeside); 3]
    );
    assert_eq!(of(&["irq_work/0", "irq/24-eth0"]), [Some(Rank::IrqWork), None]);
    assert_eq!(of(&["rcu_tasks_kthread", "kworker/0:1"]), [None; 2]);
}

#[test]
fn rcu_and_irq_work_are_raised_first_and_go_back_last() {
    let mut threads = preempt_rt();
    threads[0].demand = demand(40, 50);
    assert_eq!(steps(&threads), [(4, 42), (2, 41), (3, 41), (0, 40)]);
    carry_out(&mut threads);
    assert_eq!(steps(&threads), []);
    threads[0].demand = demand(20, 50);
    assert_eq!(steps(&threads), [(0, 20), (2, 21), (3, 21), (4, 22)]);
    threads[0].demand = None;
    let undo = plan(&threads);
    assert_eq!(undo.direction(), Direction::Back);
    assert_eq!(steps(&threads), [(0, 0), (2, 1), (3, 1), (4, 1)]);
}

#[test]
fn another_ksoftirqd_that_is_no_higher_costs_one_change() {
    let mut threads = preempt_rt();
    threads[0].demand = demand(40, 50);
    carry_out(&mut threads);
    threads[1].demand = demand(30, 50);
    assert_eq!(steps(&threads), [(1, 30)]);
    // The first falls while the second rises above it.
    carry_out(&mut threads);
    (threads[0].demand, threads[1].demand) = (demand(10, 50), demand(45, 50));
    assert_eq!(steps(&threads), [(0, 10), (4, 47), (2, 46), (3, 46), (1, 45)]);
}

#[test]
fn no_thread_is_raised_above_those_that_must_come_before_it() {
    let held = |demand, threads: &[Ordered<usize>]| {
        let mut threads = threads.to_vec();
        threads[0].demand = demand;
        let plan = plan(&threads);
        (plan.held, steps(&threads))
    };
    let beneath = |priority| vec![(0, Held::Beneath(level(priority).unwrap()))];
    let rt = preempt_rt();
    assert_eq!(held(demand(50, 50), &rt), (beneath(48), vec![(4, 50), (2, 49), (3, 49), (0, 48)]));
    assert_eq!(held(demand(99, 99), &rt), (beneath(97), vec![(4, 99), (2, 98), (3, 98), (0, 97)]));
    assert_eq!(held(demand(3, 3), &rt), (beneath(1), vec![(4, 3), (2, 2), (3, 2), (0, 1)]));
    assert_eq!(held(demand(2, 2), &rt), (vec![(0, Held::NoRoom)], vec![]));
    // Without irq_work threads one priority is enough.
    assert_eq!(held(demand(2, 2), &rt[..4]), (beneath(1), vec![(2, 2), (3, 2), (0, 1)]));
}

#[test]
fn a_thread_that_is_high_enough_already_is_left_alone() {
    let mut threads = preempt_rt();
    for which in [2, 3, 4] {
        (threads[which].usual, threads[which].now) = (level(60), level(60));
    }
    threads[0].demand = demand(50, 50);
    assert_eq!(
        plan(&threads),
        Plan {
            steps: vec![Step { id: 0, then: level(50), usual: None, direction: Direction::Away }],
            held: vec![],
        }
    );
    // Above RCU's own 60 ksoftirqd takes RCU along, and irq_work, which has 60 too.
    threads[0].demand = demand(70, 80);
    assert_eq!(steps(&threads), [(4, 72), (2, 71), (3, 71), (0, 70)]);
}

#[test]
fn a_ksoftirqd_that_gets_no_more_than_it_has_takes_no_thread_along() {
    let mut threads = vec![thread(0, Rank::Softirq, 98), thread(1, Rank::Rcu, 1)];
    threads[0].demand = demand(99, 99);
    assert_eq!(plan(&threads).steps, []);
    assert_eq!(plan_without_raises(&threads).steps, []);
    // With irq_work above RCU ksoftirqd could have 97, which is less than its usual priority.
    threads.push(thread(2, Rank::IrqWork, 0));
    assert_eq!(plan(&threads).steps, []);
    assert_eq!(plan_without_raises(&threads).steps, []);
}

#[test]
fn where_rcu_is_ordinary_ksoftirqd_stays_so() {
    let mut threads =
        vec![thread(0, Rank::Softirq, 0), thread(1, Rank::Rcu, 0), thread(2, Rank::RcuBeside, 0)];
    threads[0].demand = demand(40, 50);
    let plan = plan(&threads);
    assert_eq!((plan.steps, &plan.held[..]), (vec![], &[(0, Held::RcuIsOrdinary)][..]));
    assert!(plan.held[0].1.to_string().contains("rcutree.kthread_prio"));
}

#[test]
fn when_there_were_too_many_changes_only_boosts_are_undone() {
    let mut threads = preempt_rt();
    threads[0].demand = demand(40, 50);
    carry_out(&mut threads);
    (threads[0].demand, threads[1].demand) = (demand(20, 50), demand(30, 50));
    assert_eq!(plan(&threads).direction(), Direction::Away);
    let undo = plan_without_raises(&threads);
    assert_eq!(undo.direction(), Direction::Back);
    let steps: Vec<_> = undo.steps.iter().map(|it| (it.id, it.then)).collect();
    assert_eq!(steps, [(0, level(20)), (2, level(21)), (3, level(21)), (4, level(22))]);
    threads[0].demand = demand(45, 50);
    assert_eq!(plan_without_raises(&threads).steps, []);
}

/// Whether two threads are in order, or at least no worse than by their usual priorities.
fn is_in_order(lower: &Ordered<usize>, upper: &Ordered<usize>) -> bool {
    lower.now < upper.now || (lower.now <= lower.usual && upper.now >= upper.usual)
}

fn all_in_order(threads: &[Ordered<usize>]) -> bool {
    let of = |is: fn(&Ordered<usize>) -> bool| threads.iter().filter(move |it| is(it));
    let softirq = |it: &Ordered<usize>| it.rank == Rank::Softirq;
    let rcu = |it: &Ordered<usize>| {
        it.rank == Rank::Rcu || (it.rank == Rank::RcuBeside && it.usual.is_some())
    };
    let irq_work = |it: &Ordered<usize>| it.rank == Rank::IrqWork;
    of(softirq).all(|lower| of(rcu).all(|upper| is_in_order(lower, upper)))
        && of(rcu).all(|lower| of(irq_work).all(|upper| is_in_order(lower, upper)))
}

fn threads() -> impl Strategy<Value = Vec<Ordered<usize>>> {
    let usual = || prop_oneof![3 => Just(0u32), 3 => Just(1u32), 1 => 0u32..=99];
    let rank = prop_oneof![
        3 => Just(Rank::Softirq), 2 => Just(Rank::Rcu),
        1 => Just(Rank::RcuBeside), 2 => Just(Rank::IrqWork),
    ];
    let all = prop::collection::vec((rank, usual()), 1..10);
    all.prop_map(|all| {
        all.into_iter().enumerate().map(|(id, (rank, usual))| thread(id, rank, usual)).collect()
    })
}

type Demands = Vec<Vec<Option<(u32, u32)>>>;

fn demands() -> impl Strategy<Value = Demands> {
    let one = prop::option::weighted(0.7, (1u32..=99, 0u32..=99));
    prop::collection::vec(prop::collection::vec(one, 10), 1..8)
}

proptest! {
    #[test]
    fn no_step_of_any_plan_breaks_the_order(
        threads in threads(),
        demands in demands(),
        without in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut threads = threads;
        for (demands, without) in demands.into_iter().zip(without) {
            for (thread, one) in threads.iter_mut().zip(demands) {
                let one = one.filter(|_| thread.rank == Rank::Softirq);
                thread.demand = one.and_then(|(of, more)| demand(of, (of + more).min(99)));
            }
            let plan = if without { plan_without_raises(&threads) } else { plan(&threads) };
            let highest = threads.iter().filter_map(|it| it.demand).map(|it| it.highest).max();
            for step in plan.steps {
                let thread = threads.iter_mut().find(|it| it.id == step.id).unwrap();
                thread.now = step.then;
        // Never above the highest waiter or the usual priority.
                prop_assert!(step.then <= step.usual.max(highest));
                if let Some(demand) = thread.demand.filter(|_| step.then != step.usual) {
                    prop_assert!(step.then <= Some(demand.priority) || without);
                    prop_assert!(step.then <= Some(demand.highest));
                }
                prop_assert!(all_in_order(&threads), "{:?} broke {:?}", step, threads);
            }
        }
        // Without waiters each thread returns to its usual priority, in order at each step.
        threads.iter_mut().for_each(|it| it.demand = None);
        let last = plan(&threads);
        prop_assert_eq!(last.direction(), Direction::Back);
        for step in last.steps {
            threads.iter_mut().find(|it| it.id == step.id).unwrap().now = step.then;
            prop_assert!(all_in_order(&threads), "{:?} broke {:?}", step, threads);
        }
        prop_assert!(threads.iter().all(|it| it.now == it.usual));
    }

    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(
        threads in threads(),
        demands in demands(),
    ) {
        let mut threads = threads;
        for (thread, one) in threads.iter_mut().zip(&demands[0]) {
            let one = one.filter(|_| thread.rank == Rank::Softirq);
            thread.demand = one.and_then(|(of, more)| demand(of, (of + more).min(99)));
        }
        carry_out(&mut threads);
        prop_assert_eq!(steps(&threads), vec![]);
        prop_assert_eq!(plan_without_raises(&threads).steps, vec![]);
    }
}
