// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that benchmarks share when they run variants in alternation.

use indicatif::{ProgressBar, ProgressStyle};

/// The order of a round: a row of a Williams square. Over as many rounds as there are variants,
/// each variant runs once in each place and once directly after each other variant. An odd number
/// of variants needs twice as many rounds, and the odd rounds run backwards. So what one variant
/// leaves behind, such as warmth, falls on all variants alike.
pub fn order<T: Copy>(variants: &[T], round: usize) -> Vec<T> {
    let count = variants.len();
    // 0, 1, n-1, 2, n-2 ... has each distance between neighbours; the rounds shift it.
    let zigzag = |place: usize| if place % 2 == 1 { place.div_ceil(2) } else { count - place / 2 };
    let mut order: Vec<_> =
        (0..count).map(|place| variants[(zigzag(place) + round) % count]).collect();
    if count % 2 == 1 && round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Shows the progress and the remaining time.
pub fn progress_bar(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    let progress = ProgressBar::new(steps as u64);
    match style {
        Ok(style) => progress.with_style(style),
        Err(_) => progress,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_variant_follows_each_other_one_and_stands_in_each_place_equally_often() {
        for count in 1..=14 {
            let variants: Vec<usize> = (0..count).collect();
            let (rounds, times) = if count % 2 == 0 { (count, 1) } else { (2 * count, 2) };
            let (mut neighbours, mut places) = (BTreeMap::new(), BTreeMap::new());
            for round in 0..rounds {
                let order = order(&variants, round);
                for pair in order.windows(2) {
                    *neighbours.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
                for placed in order.into_iter().enumerate() {
                    *places.entry(placed).or_insert(0) += 1;
                }
            }
            assert_eq!(neighbours.len(), count * (count - 1));
            assert!(neighbours.values().all(|&found| found == times), "{neighbours:?}");
            assert_eq!(places.len(), count * count);
            assert!(places.values().all(|&found| found == times), "{places:?}");
        }
    }
}
