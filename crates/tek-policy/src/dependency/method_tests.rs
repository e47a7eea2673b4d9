// SPDX-License-Identifier: MIT OR Apache-2.0
//! The equations against tables that were computed by hand, and properties of all results.
use super::*;
use proptest::prelude::*;

/// An R(k) with each task once.
fn of(priorities: &[u32]) -> Dependants<usize> {
    let mut all = Dependants::default();
    for (waiter, priority) in priorities.iter().enumerate() {
        all.add(waiter, RtPriority::new(*priority).unwrap());
    }
    all
}

fn weighted(thousandths: u32, ratio: u32, all: &Dependants<usize>) -> Option<u8> {
    let weight = Weight::from_thousandths(thousandths).unwrap();
    let ratio = Ratio::from_thousandths(ratio);
    Method::Weighted.priority(weight, ratio, all.summary()).map(RtPriority::get)
}

/// Equation (1): the highest priority in R(k), for any other members.
#[test]
fn equation_1_agrees_with_the_table() {
    let table: [(&[u32], Option<u8>); 5] = [
        (&[], None),
        (&[40], Some(40)),
        (&[40, 10, 10, 10], Some(40)),
        (&[1], Some(1)),
        (&[99, 98], Some(99)),
    ];
    for (members, wanted) in table {
        let (weight, summary) = (Weight::INDIRECT, of(members).summary());
        let plain = Method::Plain.priority(weight, Ratio::ZERO, summary).map(RtPriority::get);
        assert_eq!(plain, wanted, "{members:?}");
    }
}

/// Equation (2), w = 0.8: writeback, kswapd, workers.
#[test]
fn equation_2_agrees_with_the_table_for_the_weight_0_8() {
    let table: [(&[u32], Option<u8>); 11] = [
        (&[], None),                    // no task
        (&[40], Some(32)),              // 0.8 × 40 = 32
        (&[50, 40], Some(36)),          // 0.8 × 90/2 = 36
        (&[40, 40, 10], Some(24)),      // the task at 40 wrote two files: 0.8 × 90/3 = 24
        (&[40, 10, 10, 10], Some(14)),  // 0.8 × 70/4 = 14
        (&[99], Some(79)),              // 79.2
        (&[97, 96, 96], Some(77)),      // 0.8 × 289/3 = 77.07
        (&[43], Some(34)),              // 34.4
        (&[42], Some(34)),              // 33.6, up
        (&[1], Some(1)),                // 0.8, up to 1, which is the highest
        (&[2, 1, 1, 1, 1, 1], Some(1)), // 0.8 × 7/6 = 0.93, up
    ];
    for (members, wanted) in table {
        assert_eq!(weighted(800, 1000, &of(members)), wanted, "{members:?}");
    }
}

/// Equation (2), w = 1.2: interrupt threads and ksoftirqd.
#[test]
fn equation_2_agrees_with_the_table_for_the_weight_1_2() {
    let table: [(&[u32], Option<u8>); 9] = [
        (&[40], Some(40)), // 48, cut off at the highest: below the interrupt thread's own 50
        (&[50, 40], Some(50)), // 1.2 × 45 = 54, cut off at 50
        (&[50, 10], Some(36)), // 1.2 × 30 = 36
        (&[50, 33], Some(50)), // 1.2 × 41.5 = 49.8, up
        (&[50, 10, 10], Some(28)), // 1.2 × 70/3 = 28
        (&[30, 20, 20], Some(28)), // 1.2 × 70/3 = 28
        (&[99, 98], Some(99)), // 118.2, cut off at the highest, which is the highest there is
        (&[1], Some(1)),   // 1.2, cut off
        (&[40, 2, 3], Some(18)), // 1.2 × 45/3 = 18
    ];
    for (members, wanted) in table {
        assert_eq!(weighted(1200, 1000, &of(members)), wanted, "{members:?}");
    }
}

/// Equation (3): kswapd.
#[test]
fn equation_3_agrees_with_the_table() {
    let table: [(u32, u32, &[u32], Option<u8>); 11] = [
        (800, 0, &[99, 99], None),            // the tasks own no page: 0
        (800, 300, &[40], Some(10)),          // 0.8 × 40 × 0.3 = 9.6, up
        (800, 300, &[50, 40, 30], Some(10)),  // 0.8 × 40 × 0.3 = 9.6, up
        (800, 300, &[2], None),               // 0.48: below 1 after rounding
        (800, 300, &[3, 1], None),            // 0.8 × 2 × 0.3 = 0.48
        (800, 300, &[3, 2], Some(1)),         // 0.8 × 2.5 × 0.3 = 0.6, up
        (800, 1000, &[50, 40, 30], Some(32)), // as equation (2)
        (1200, 300, &[50, 10], Some(11)),     // 1.2 × 30 × 0.3 = 10.8, up
        (1200, 1000, &[50, 40], Some(50)),    // cut off at the highest, after the ratio
        (1200, 900, &[50, 40], Some(49)),     // 1.2 × 45 × 0.9 = 48.6, up
        (10_000, 300, &[9, 20], Some(20)),    // 10 × 14.5 × 0.3 = 43.5, cut off
    ];
    for (weight, ratio, members, wanted) in table {
        assert_eq!(weighted(weight, ratio, &of(members)), wanted, "{weight} {ratio} {members:?}");
    }
}

#[test]
fn a_half_is_rounded_upwards() {
    // 0.5 × 5 = 2.5; 0.5 × 1 = 0.5; 0.499 × 1 is below.
    assert_eq!(weighted(500, 1000, &of(&[5])), Some(3));
    assert_eq!(weighted(500, 1000, &of(&[1])), Some(1));
    assert_eq!(weighted(499, 1000, &of(&[1])), None);
}

#[test]
fn numbers_that_no_device_has_do_not_overflow() {
    let highest = RtPriority::HIGHEST;
    let summary = Some(Summary { count: u64::MAX / 99, sum: u64::MAX / 99 * 99, highest });
    let weight = Weight::from_thousandths(10_000).unwrap();
    assert_eq!(Method::Weighted.priority(weight, Ratio::ONE, summary), Some(highest));
}

fn members() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1u32..=99, 1..30)
}

proptest! {
    #[test]
    fn never_above_the_highest_dependant(
        members in members(), weight in 100u32..=10_000, ratio in 0u32..=1000,
    ) {
        let highest = members.iter().max().copied().unwrap();
        if let Some(priority) = weighted(weight, ratio, &of(&members)) {
            prop_assert!(u32::from(priority) <= highest && priority >= 1);
        }
    }

    #[test]
    fn a_dependant_of_higher_priority_never_lowers_it(
        members in members(), which in any::<prop::sample::Index>(), more in 1u32..=98,
        weight in 100u32..=10_000, ratio in 0u32..=1000,
    ) {
        let mut higher = members.clone();
        let one = which.index(members.len());
        higher[one] = (higher[one] + more).min(99);
        // None is 0 here: the thread is not real-time.
        let by_weight = |all: &[u32]| weighted(weight, ratio, &of(all));
        prop_assert!(by_weight(&higher) >= by_weight(&members));
        let plain =
            |all: &[u32]| Method::Plain.priority(Weight::DIRECT, Ratio::ONE, of(all).summary());
        prop_assert!(plain(&higher) >= plain(&members));
    }

    #[test]
    fn more_weight_or_more_pages_never_lower_it(
        members in members(), weight in 100u32..=9_000, more in 0u32..=1000,
        ratio in 0u32..=900, pages in 0u32..=100,
    ) {
        let all = of(&members);
        let first = weighted(weight, ratio, &all);
        prop_assert!(weighted(weight + more, ratio, &all) >= first);
        prop_assert!(weighted(weight, ratio + pages, &all) >= first);
    }

    #[test]
    fn it_is_within_half_a_priority_of_the_equation(
        members in members(), weight in 100u32..=10_000, ratio in 0u32..=1000,
    ) {
        let sum: u32 = members.iter().sum();
        let mean = f64::from(sum) / members.len() as f64;
        let exact = f64::from(weight) / 1000.0 * mean * f64::from(ratio) / 1000.0;
        let exact = exact.min(f64::from(*members.iter().max().unwrap()));
        let got = f64::from(weighted(weight, ratio, &of(&members)).unwrap_or(0));
        prop_assert!((got - exact).abs() <= 0.5 + 1e-9, "{} for {}", got, exact);
    }

    #[test]
    fn it_is_back_to_the_default_when_all_have_gone(
        members in members(), order in any::<prop::sample::Index>(), weight in 100u32..=10_000,
    ) {
        let mut all = of(&members);
        let first = order.index(members.len());
        for waiter in (first..members.len()).chain(0..first) {
            prop_assert!(weighted(weight, 1000, &all).is_some() || weight < 500);
            all.remove(waiter);
        }
        prop_assert_eq!(weighted(weight, 1000, &all), None);
        prop_assert_eq!(Method::Plain.priority(Weight::DIRECT, Ratio::ONE, all.summary()), None);
    }

    #[test]
    fn the_order_in_which_they_come_does_not_matter(
        (members, other) in members()
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        weight in 100u32..=10_000,
    ) {
        prop_assert_eq!(weighted(weight, 1000, &of(&members)), weighted(weight, 1000, &of(&other)));
    }
}
