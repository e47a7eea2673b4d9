// SPDX-License-Identifier: MIT OR Apache-2.0
//! The size that a stack should have: the rule of lib/stack/size.c, for reports and advice.
use crate::profile::Kind;

/// Largest size of a stack.
const MOST_STACK: u64 = 1 << 30;

/// Margins of auto and of tight, in percent of the largest use.
const AUTO_MARGIN: u64 = 150;
const TIGHT_MARGIN: u64 = 108;

/// Least size in mode auto, besides the need of an idle thread.
const AUTO_FLOOR: u64 = 64 << 10;

/// A signal handler's room on a signal stack, beside the kernel's frame: lib/stack/signal_stack.c.
const HANDLER_BYTES: u64 = 8 << 10;

/// The C library's need beside thread control block and static TLS.
const REST_BYTES: u64 = 2 << 10;

/// PTHREAD_STACK_MIN of the C library.
const LEAST_STACK: u64 = if cfg!(any(target_arch = "aarch64", target_arch = "powerpc64")) {
    128 << 10
} else {
    16 << 10
};

/// Thread control block and static TLS of most programs: they cannot be read from outside.
pub const DEFAULT_TLS_BYTES: u64 = 4 << 10;

/// The content of each stack besides the thread's own use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Size of a page.
    pub page: u64,
    /// Thread control block and static TLS.
    pub tls: u64,
    /// The kernel's frame for a signal: AT_MINSIGSTKSZ.
    pub frame: u64,
}

impl Costs {
    /// The costs on this machine, for most programs.
    pub fn here() -> Self {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
        Self {
            page: page.and_then(|page| u64::try_from(page).ok()).filter(|&p| p > 0).unwrap_or(4096),
            tls: DEFAULT_TLS_BYTES,
            frame: signal_frame(),
        }
    }

    /// Rounds up to whole pages.
    pub fn in_pages(self, bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(self.page.max(1)).unwrap_or(u64::MAX)
    }

    /// The least size that `tek run --stack auto` gives.
    pub fn floor(self) -> u64 {
        AUTO_FLOOR.saturating_add(self.tls).saturating_add(self.frame.saturating_mul(2))
    }

    /// The least size that the C library takes.
    pub fn minimum(self) -> u64 {
        LEAST_STACK.max(self.frame).max(self.tls.saturating_add(REST_BYTES))
    }

    /// The signal stack of a thread whose stack TEK fits, without its guard page.
    pub fn signal_stack(self) -> u64 {
        self.in_pages(self.frame + HANDLER_BYTES)
    }
}

/// AT_MINSIGSTKSZ of getauxval(3).
fn signal_frame() -> u64 {
    const AT_MINSIGSTKSZ: usize = 51;
    const LEAST: u64 = 2048;
    let auxv = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).unwrap_or(0);
    let mut pairs = auxv.chunks_exact(2 * size_of::<usize>()).map(|pair| {
        let (kind, value) = pair.split_at(size_of::<usize>());
        (word(kind), word(value) as u64)
    });
    pairs.find(|&(kind, _)| kind == AT_MINSIGSTKSZ).map_or(LEAST, |(_, value)| value.max(LEAST))
}

/// How closely stacks are fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With a margin for use that was not observed yet.
    Auto,
    /// To the page.
    Tight,
}

/// How a size is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Percentage of the largest use.
    pub margin_percent: u64,
    /// Growth from one run to another may happen again by as much.
    pub expects_growth: bool,
    /// Least size, in bytes.
    pub floor_bytes: u64,
    /// The content of each stack besides the thread's use.
    pub costs: Costs,
    /// It also applies where the program chose the size: `--stack override`.
    pub overrides: bool,
}

impl Rule {
    /// The rule of a mode, with a margin and a floor if they are not its own.
    pub fn new(
        mode: Mode,
        margin_percent: Option<u64>,
        floor_bytes: Option<u64>,
        costs: Costs,
    ) -> Self {
        let (margin, floor) = match mode {
            Mode::Auto => (AUTO_MARGIN, costs.floor()),
            Mode::Tight => (TIGHT_MARGIN, 0),
        };
        Self {
            margin_percent: margin_percent.unwrap_or(margin),
            expects_growth: mode == Mode::Auto && margin_percent.is_none(),
            floor_bytes: floor_bytes.unwrap_or(floor).max(costs.minimum()),
            costs,
            overrides: false,
        }
    }

    /// The size that fits a site's threads, in bytes; `None` without data on them.
    pub fn size(&self, kind: &Kind) -> Option<u64> {
        if kind.bound == 0 && kind.overflow == 0 {
            return None;
        }
        let growth = if self.expects_growth { kind.growth() } else { 0 };
        let margin =
            kind.bound.saturating_add(growth).saturating_mul(self.margin_percent).div_ceil(100);
        let wanted = margin.max(self.floor_bytes).max(after_overflow(kind));
        Some(self.costs.in_pages(wanted.min(MOST_STACK)))
    }

    /// The size that a site's threads should have: the one that fits. It is larger than the present
    /// one only after an overflow, or where the certain use nearly fills that.
    pub fn needed(&self, kind: &Kind, zones: Zones) -> Option<u64> {
        let size = self.size(kind)?;
        let grows = kind.stack == 0
            || kind.overflow != 0
            || zones.of(kind.peak, kind.stack) == Some(Zone::High);
        Some(if grows { size } else { size.min(kind.stack) })
    }

    /// The size that TEK gives a site's threads; `None`: the program's own.
    pub fn fitted(&self, kind: &Kind, zones: Zones) -> Option<u64> {
        self.needed(kind, zones).filter(|_| self.overrides || !kind.explicit)
    }

    /// The recommendation for the threads of a site.
    pub fn advice(&self, kind: &Kind, zones: Zones) -> Advice {
        let Some(size) = self.size(kind) else { return Advice::Measure };
        if kind.overflow != 0 && kind.stack <= kind.overflow {
            return Advice::Overflowed { had: kind.overflow, to: size };
        }
        if kind.stack == 0 {
            return Advice::Choose { to: size };
        }
        if zones.of(kind.peak, kind.stack) == Some(Zone::High) && size > kind.stack {
            return Advice::Raise { to: size };
        }
        // A small excess is kept: another run may show a little more or less.
        if kind.stack > size.saturating_add(size / 4) {
            return Advice::Lower { to: size };
        }
        Advice::Keep
    }
}

/// The least size after an overflow. The real need is unknown, so it is also at least the largest
/// stack that one had, usually the program's own choice.
fn after_overflow(kind: &Kind) -> u64 {
    match kind.overflow {
        0 => 0,
        overflow => overflow.saturating_mul(2).max(kind.stack),
    }
}

/// The recommendation for the stacks of a kind of thread. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Measure them first.
    Measure,
    /// Their present size is unknown.
    Choose {
        /// The sufficient size.
        to: u64,
    },
    /// They are larger than necessary.
    Lower {
        /// The sufficient size.
        to: u64,
    },
    /// They are nearly used up.
    Raise {
        /// The sufficient size.
        to: u64,
    },
    /// One ran out of its stack.
    Overflowed {
        /// The size of that stack.
        had: u64,
        /// The size to try.
        to: u64,
    },
    /// They fit.
    Keep,
}

impl Advice {
    /// The recommended size, if it is another than they have.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::Choose { to }
            | Self::Lower { to }
            | Self::Raise { to }
            | Self::Overflowed { to, .. } => Some(to),
            Self::Measure | Self::Keep => None,
        }
    }
}

/// Zone of a stack's use (tek-2020, IV-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Most of it is unused.
    Low,
    /// Its use is as it should be.
    Normal,
    /// Its use is near its size.
    High,
}

/// The boundaries of the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Low Zone: stacks of which less than this percentage is used.
    pub low_percent: u8,
    /// High Zone: stacks of which more than this percentage is used.
    pub high_percent: u8,
}

impl Default for Zones {
    fn default() -> Self {
        Self { low_percent: 25, high_percent: 80 }
    }
}

impl Zones {
    /// The boundaries in a table; the usual ones if it has none.
    pub fn of_table(low_percent: u8, high_percent: u8) -> Self {
        match high_percent {
            0 => Self::default(),
            _ => Self { low_percent, high_percent },
        }
    }

    /// The zone of a stack with that use; `None` where either is unknown.
    pub fn of(self, used: u64, stack: u64) -> Option<Zone> {
        if used == 0 || stack == 0 {
            return None;
        }
        let (used, stack) = (u128::from(used) * 100, u128::from(stack));
        Some(if used < stack * u128::from(self.low_percent) {
            Zone::Low
        } else if used > stack * u128::from(self.high_percent) {
            Zone::High
        } else {
            Zone::Normal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(mode: Mode) -> Rule {
        Rule::new(mode, None, None, Costs { page: 4096, tls: 4096, frame: 4096 })
    }

    fn used(bound: u64, stack: u64) -> Kind {
        Kind { bound, peak: bound.saturating_sub(100), stack, threads: 1, ..Kind::default() }
    }

    #[test]
    fn auto_leaves_a_margin_and_a_floor_and_tight_goes_to_the_page() {
        let auto = rule(Mode::Auto);
        assert_eq!(auto.size(&used(12288, 8 << 20)), Some(77824));
        assert_eq!(auto.size(&used(100 << 10, 8 << 20)), Some(152 << 10));
        assert_eq!(rule(Mode::Tight).size(&used(100 << 10, 8 << 20)), Some(108 << 10));
        assert_eq!(auto.size(&Kind::default()), None);
    }

    #[test]
    fn a_kind_that_overflowed_gets_twice_the_size_or_the_largest_that_one_had() {
        for (stack, size) in [(8 << 20, 8 << 20), (128 << 10, 256 << 10), (0, 256 << 10)] {
            let kind = Kind { overflow: 128 << 10, ..used(4096, stack) };
            assert_eq!(rule(Mode::Auto).size(&kind), Some(size));
            assert_eq!(rule(Mode::Tight).size(&kind), Some(size));
        }
    }

    #[test]
    fn a_kind_that_has_grown_has_room_to_grow_again_by_as_much() {
        let kind = Kind { least: 16 << 10, ..used(48 << 10, 8 << 20) };
        assert_eq!(rule(Mode::Auto).size(&kind), Some((48 + 32) * 3 / 2 * 1024));
        assert_eq!(rule(Mode::Tight).size(&kind), Some(52 << 10));
        let costs = Costs { page: 4096, tls: 4096, frame: 4096 };
        let own_margin = Rule::new(Mode::Auto, Some(200), None, costs);
        assert_eq!(own_margin.size(&kind), Some(96 << 10));
    }

    #[test]
    fn advice_is_to_lower_raise_or_keep() {
        let auto = rule(Mode::Auto);
        let advice = |kind: &Kind| auto.advice(kind, Zones::default());
        assert_eq!(advice(&used(12288, 8 << 20)), Advice::Lower { to: 77824 });
        assert_eq!(advice(&used(120 << 10, 128 << 10)), Advice::Raise { to: 184320 });
        assert_eq!(advice(&used(12288, 77824)), Advice::Keep);
        assert_eq!(advice(&used(12288, 90 << 10)), Advice::Keep);
        assert_eq!(advice(&Kind::default()), Advice::Measure);
        let overflowed = Kind { overflow: 65536, stack: 65536, ..used(65536, 0) };
        assert_eq!(advice(&overflowed), Advice::Overflowed { had: 65536, to: 131072 });
    }

    #[test]
    fn no_stack_is_smaller_than_the_c_library_takes() {
        let costs = Costs { page: 4096, tls: 40_000, frame: 4096 };
        for floor in [None, Some(0), Some(20_000)] {
            let rule = Rule::new(Mode::Tight, None, floor, costs);
            assert_eq!(
                rule.size(&used(100, 8 << 20)),
                Some(if LEAST_STACK > 45056 { LEAST_STACK } else { 45056 })
            );
        }
    }

    #[test]
    fn more_than_they_have_is_for_threads_that_nearly_fill_it() {
        let (auto, zones) = (rule(Mode::Auto), Zones::default());
        let full = used(120 << 10, 128 << 10);
        assert_eq!(auto.fitted(&full, zones), Some(184_320));
        let unclean = Kind { peak: 4096, ..full };
        assert_eq!(auto.fitted(&unclean, zones), Some(128 << 10));
        assert_eq!(auto.advice(&unclean, zones), Advice::Keep);
    }

    #[test]
    fn what_the_program_chose_is_changed_only_if_it_is_overridden() {
        let zones = Zones::default();
        let kind = Kind { explicit: true, ..used(12288, 8 << 20) };
        assert_eq!(rule(Mode::Auto).fitted(&kind, zones), None);
        let overrides = Rule { overrides: true, ..rule(Mode::Auto) };
        assert_eq!(overrides.fitted(&kind, zones), Some(77_824));
        assert_eq!(rule(Mode::Auto).advice(&kind, zones), Advice::Lower { to: 77_824 });
    }

    #[test]
    fn zones_are_by_share() {
        let zones = Zones::default();
        let of = |used| zones.of(used, 1000);
        assert_eq!(of(249), Some(Zone::Low));
        assert_eq!([of(250), of(800)], [Some(Zone::Normal); 2]);
        assert_eq!(of(801), Some(Zone::High));
        assert_eq!([of(0), zones.of(5, 0)], [None; 2]);
        assert_eq!(zones.of(u64::MAX, u64::MAX), Some(Zone::High));
    }

    proptest! {
        #[test]
        fn a_size_holds_what_was_used_and_is_whole_pages(
            bound in 1u64..1 << 30, overflow in 0u64..1 << 31, margin in 100u64..10_000,
        ) {
            let rule = Rule { margin_percent: margin, ..rule(Mode::Auto) };
            let size = rule.size(&Kind { overflow, ..used(bound, 8 << 20) }).unwrap();
            prop_assert!(size >= bound && size.is_multiple_of(4096) && size <= MOST_STACK);
        }

        #[test]
        fn no_kind_makes_the_advice_panic(numbers in any::<[u64; 5]>()) {
            let [bound, peak, stack, overflow, threads] = numbers;
            let kind = Kind {
                bound,
                least: threads,
                peak,
                stack,
                overflow,
                threads,
                ..Kind::default()
            };
            let _ = rule(Mode::Tight).advice(&kind, Zones::default());
        }
    }
}
