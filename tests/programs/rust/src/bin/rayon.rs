// SPDX-License-Identifier: MIT OR Apache-2.0
//! A parallel sum and a parallel sort by rayon. Prints the results.
use rayon::prelude::*;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().expect("a pool of threads");
    let (sum, first) = pool.install(|| {
        let mut numbers: Vec<u64> = (0..200_000).rev().collect();
        numbers.par_sort_unstable();
        ((0..1_000_000u64).into_par_iter().sum::<u64>(), numbers[0])
    });
    println!("sum {sum}, first {first}");
}
