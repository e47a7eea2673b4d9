// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few statistics that the reports use, as pure functions.

use serde::Serialize;

/// The summary of a distribution in a report; the unit is that of the values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    pub n: usize,
}

/// Summarizes values; `None` if there are none.
pub fn summarize(values: &[f64]) -> Option<Summary> {
    let sorted = sorted(values);
    Some(Summary {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min: *sorted.first()?,
        p50: median(values)?,
        p99: nearest_rank(&sorted, 0.99)?,
        max: *sorted.last()?,
        n: values.len(),
    })
}

/// A quantile, 0 to 1, by nearest rank.
pub fn quantile(values: &[f64], quantile: f64) -> Option<f64> {
    nearest_rank(&sorted(values), quantile)
}

/// The 99th percentile by nearest rank: of fewer than 100 values it is the greatest.
pub fn p99(values: &[f64]) -> Option<f64> {
    quantile(values, 0.99)
}

/// The median of the differences in each round. See [`median_of_ratios`].
pub fn median_difference(with: &[f64], without: &[f64]) -> Option<f64> {
    let differences: Vec<f64> =
        with.iter().zip(without).map(|(with, without)| with - without).collect();
    median(&differences)
}

/// The middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

/// The median of `numerator / denominator` over the rounds.
///
/// Both were measured in the same round, so a disturbance of a whole round cancels out. A
/// disturbance of a single measurement is an outlier that the median drops.
pub fn median_of_ratios(numerators: &[f64], denominators: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .filter(|(_, denominator)| **denominator > 0.0)
        .map(|(numerator, denominator)| numerator / denominator)
        .collect();
    median(&ratios)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn nearest_rank(sorted: &[f64], quantile: f64) -> Option<f64> {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_25_values_the_p99_is_the_greatest() {
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        assert_eq!(p99(&values), Some(25.0));
    }

    #[test]
    fn of_200_values_the_p99_is_the_third_greatest() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(p99(&values), Some(198.0));
    }

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn one_disturbed_round_does_not_move_the_median_of_ratios() {
        let ratio = median_of_ratios(&[20.0, 90.0, 21.0], &[20.0, 20.0, 20.0]);
        assert_eq!(ratio, Some(1.05));
    }

    #[test]
    fn nothing_measured_gives_no_number() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(median_of_ratios(&[1.0], &[0.0]), None);
    }

    proptest! {
        #[test]
        fn a_summary_is_ordered_and_within_the_values(
            values in prop::collection::vec(0.0..1e9f64, 1..300),
        ) {
            let summary = summarize(&values).unwrap();
            prop_assert!(values.contains(&summary.min));
            prop_assert!(summary.min <= summary.p50);
            prop_assert!(summary.p50 <= summary.p99);
            prop_assert!(summary.p99 <= summary.max);
            prop_assert!(values.contains(&summary.p99));
            prop_assert!(summary.mean <= summary.max * (1.0 + 1e-9));
        }

        #[test]
        fn the_order_of_the_values_does_not_matter(
            mut values in prop::collection::vec(0.0..1e9f64, 1..100),
        ) {
            let before = (median(&values), p99(&values));
            values.reverse();
            prop_assert_eq!(before, (median(&values), p99(&values)));
        }

        #[test]
        fn a_variant_compared_with_itself_is_at_one(
            values in prop::collection::vec(0.001..1e9f64, 1..50),
        ) {
            prop_assert_eq!(median_of_ratios(&values, &values), Some(1.0));
        }
    }
}
