// SPDX-License-Identifier: MIT OR Apache-2.0
//! The priority of a holder, from the tasks that wait for it.
use super::{Method, Ratio, RtPriority, Summary, Weight};

/// How a priority follows from R. A kernel thread has a weight and a ratio of its own; the holder
/// of a lock and a server have the constants of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiftEquation {
    /// Highest or weighted mean.
    pub method: Method,
    /// The factor of the mean.
    pub weight: Weight,
    /// A second factor of the mean: for kswapd.
    pub ratio: Ratio,
    /// The result is at least this much below the highest waiter, and at least 1.
    pub below: u8,
}

impl LiftEquation {
    /// The owner of a lock, and a thread whose end is awaited: one step below the highest waiter,
    /// which thus runs at once when its wait ends.
    pub const OWNER: Self =
        Self { method: Method::Plain, weight: Weight::EVEN, ratio: Ratio::ONE, below: 1 };

    /// A server: the mean of its clients, one step below the highest.
    pub const SERVER: Self =
        Self { method: Method::Weighted, weight: Weight::EVEN, ratio: Ratio::ONE, below: 1 };

    /// A kernel thread.
    pub const fn kernel(method: Method, weight: Weight, ratio: Ratio) -> Self {
        Self { method, weight, ratio, below: 0 }
    }

    /// The priority of a holder; `of` is the summary of its R. `None`: it has its own priority.
    pub fn priority(self, of: Option<Summary>) -> Option<RtPriority> {
        let priority = self.method.priority(self.weight, self.ratio, of)?;
        let highest = of?.highest.get().saturating_sub(self.below).max(1);
        RtPriority::new(priority.get().min(highest).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependency::Dependants;
    use proptest::prelude::*;

    fn of(priorities: &[u32]) -> Option<Summary> {
        let mut all = Dependants::default();
        for (waiter, priority) in priorities.iter().enumerate() {
            all.add(waiter, RtPriority::new(*priority).unwrap());
        }
        all.summary()
    }

    #[test]
    fn an_owner_is_one_step_below_its_most_urgent_waiter() {
        let owner = |all: &[u32]| LiftEquation::OWNER.priority(of(all)).map(RtPriority::get);
        assert_eq!(owner(&[40, 10, 10]), Some(39));
        assert_eq!((owner(&[1]), owner(&[2]), owner(&[])), (Some(1), Some(1), None));
    }

    #[test]
    fn a_server_has_the_mean_of_its_clients() {
        let server = |all: &[u32]| LiftEquation::SERVER.priority(of(all)).map(RtPriority::get);
        assert_eq!((server(&[40]), server(&[40, 10])), (Some(39), Some(25)));
        assert_eq!((server(&[]), server(&[1])), (None, Some(1)));
    }

    proptest! {
        #[test]
        fn no_holder_is_above_its_waiters(
            all in prop::collection::vec(1u32..=99, 0..9), weight in 100u32..=10_000,
        ) {
            let kernel = LiftEquation::kernel(
                Method::Weighted, Weight::from_thousandths(weight).unwrap(), Ratio::ONE,
            );
            for equation in [LiftEquation::OWNER, LiftEquation::SERVER, kernel] {
                let priority = equation.priority(of(&all)).map(|it| u32::from(it.get()));
                prop_assert!(priority <= all.iter().max().copied());
                prop_assert!(!all.is_empty() || priority.is_none());
            }
        }
    }
}
