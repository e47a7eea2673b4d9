// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorts lists of any type with one copy of the code that sorts.
//!
//! Elements that are equal keep their order. Each call allocates a number for each element.
use std::cmp::Ordering;

/// Sorts by a comparison, as `slice::sort_by` does.
pub fn by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let order = order(list.len(), &mut |one, other| compare(&list[one], &list[other]));
    arrange(list, order);
}

/// Sorts by a key, as `slice::sort_by_key` does. The key is computed for each comparison.
pub fn by_key<T, K: Ord>(list: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(list, |one, other| key(one).cmp(&key(other)));
}

/// Sorts the least to the front, as `slice::sort` does.
pub fn ascending<T: Ord>(list: &mut [T]) {
    by(list, T::cmp);
}

/// The places of the elements, in the order in which they are to be.
#[inline(never)] // all calls share it
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&one, &other| compare(one, other));
    places
}

/// Exchanges the elements: the one at `from[to]` comes to `to`.
fn arrange<T>(list: &mut [T], mut from: Vec<usize>) {
    for start in 0..list.len() {
        let mut to = start;
        // Each element of a circle is swapped into its place, and marked by its own number.
        loop {
            let next = std::mem::replace(&mut from[to], to);
            if next == start {
                break;
            }
            list.swap(to, next);
            to = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library(
            keys in proptest::collection::vec(0_u8..20, 0..200),
        ) {
            // With their places, so that equal ones differ.
            let list: Vec<(u8, usize)> = keys.into_iter().zip(0..).collect();
            let mut expected = list.clone();
            expected.sort_by_key(|&(key, _)| key);
            let mut sorted = list.clone();
            by_key(&mut sorted, |&(key, _)| key);
            prop_assert_eq!(&sorted, &expected);

            expected.sort();
            ascending(&mut sorted);
            prop_assert_eq!(&sorted, &expected);

            expected.sort_by(|(one, _), (other, _)| other.cmp(one));
            by(&mut sorted, |(one, _), (other, _)| other.cmp(one));
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn elements_that_cannot_be_copied_are_exchanged() {
        let mut words: Vec<String> = ["wait", "lock", "run"].map(str::to_owned).into();
        by_key(&mut words, |word| word.len());
        assert_eq!(words, ["run", "wait", "lock"]);
        by_key(&mut words[..0], |word| word.len());
    }
}
