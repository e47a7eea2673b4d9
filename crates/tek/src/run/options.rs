// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of `tek run`'s options: pure functions from text to meaning.
//!
//! libtek.so reads the same values from the environment, but can only complain after the program
//! has started. So they are checked here first, as strictly as the library does or more so.
use std::ffi::CString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A thread name is at most so many bytes long.
const NAME_BYTES: usize = 15;

/// libtek.so takes patterns of at most so many bytes, and so many of them.
const GLOB_BYTES: usize = 63;
pub const MOST_PATTERNS: usize = 64;

/// `GLOB[=NICE]`: threads by name that become time-critical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Critical {
    /// The pattern, as fnmatch(3) takes it.
    pub glob: String,
    /// SCHED_TEK priority; `None` leaves the default to the library.
    pub nice: Option<i32>,
}

impl Critical {
    /// Whether a thread name fits the pattern, as the library sees it.
    pub fn matches(&self, name: &[u8]) -> bool {
        let (Ok(glob), Ok(name)) = (CString::new(self.glob.as_str()), CString::new(name)) else {
            return false;
        };
        // SAFETY: both are NUL-terminated strings that outlive the call.
        unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
    }
}

impl fmt::Display for Critical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nice {
            Some(nice) => write!(f, "{}={nice}", self.glob),
            None => f.write_str(&self.glob),
        }
    }
}

impl FromStr for Critical {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (glob, nice) = match text.rsplit_once('=') {
            Some((glob, nice)) => {
                let number = nice.parse().ok().filter(|n| (-20..=19).contains(n));
                let number = number.ok_or_else(|| {
                    format!("`{nice}` after `=` is no priority: it is a nice value from -20 to 19, as in ui*=-5")
                })?;
                (glob, Some(number))
            }
            None => (text, None),
        };
        if glob.is_empty() {
            return Err(
                "the pattern is empty: write GLOB or GLOB=NICE, as in ui* or touch=-5".into()
            );
        }
        if glob.contains(',') {
            return Err(
                "a pattern cannot contain a comma: give --critical once for each pattern".into()
            );
        }
        if glob.chars().any(char::is_control) {
            return Err("a pattern cannot contain control characters".into());
        }
        if glob.len() > GLOB_BYTES {
            return Err(format!("the pattern is longer than {GLOB_BYTES} bytes: shorten it, for Linux cuts thread names to {NAME_BYTES}"));
        }
        let least = shortest_match(glob)?;
        if least > NAME_BYTES {
            return Err(format!(
                "no thread can match: the pattern needs {least} bytes and Linux cuts thread names to {NAME_BYTES}"
            ));
        }
        Ok(Self { glob: glob.to_owned(), nice })
    }
}

/// Length in bytes of the shortest name that a pattern of fnmatch(3) can match.
fn shortest_match(glob: &str) -> Result<usize, String> {
    let mut rest = glob.as_bytes();
    let mut least = 0;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'*' => continue,
            b'\\' => {
                rest = rest.split_first().ok_or("the pattern ends in a backslash: write \\\\")?.1;
            }
            b'[' => {
                rest = after_bracket(rest).ok_or(
                    "the bracket `[` is not closed: write [abc], or \\[ for the character",
                )?;
            }
            _ => {}
        }
        least += 1;
    }
    Ok(least)
}

/// What follows a bracket expression, given what follows its `[`.
fn after_bracket(inside: &[u8]) -> Option<&[u8]> {
    let mut at = usize::from(matches!(inside.first(), Some(b'!' | b'^')));
    // A `]` in first place stands for itself.
    if inside.get(at) == Some(&b']') {
        at += 1;
    }
    loop {
        match (inside.get(at)?, inside.get(at + 1)) {
            (b']', _) => return Some(&inside[at + 1..]),
            (b'\\', Some(_)) => at += 2,
            (b'[', Some(&kind @ (b':' | b'.' | b'='))) => {
                let end = inside[at + 2..].windows(2).position(|pair| pair == [kind, b']'])?;
                at += 2 + end + 2;
            }
            _ => at += 1,
        }
    }
}

/// `CPU/WINDOW` or `off`: what the guard lets a time-critical thread use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// No guard of ours.
    Off,
    /// So much CPU time in any window.
    Limit {
        /// CPU time.
        cpu: Duration,
        /// Window.
        window: Duration,
    },
}

const BUDGET_FORM: &str = "write CPU/WINDOW with units ns, us, ms or s, as in 800ms/1s, or off";

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (cpu, window) = text.split_once('/').ok_or(BUDGET_FORM)?;
        let (cpu, window) = (duration(cpu)?, duration(window)?);
        if window < Duration::from_millis(10) || window > Duration::from_secs(3600) {
            return Err("the window must be from 10ms to 3600s".into());
        }
        if cpu > window {
            return Err("a thread cannot use more CPU time than the window is long".into());
        }
        if cpu.is_zero() {
            return Err("a budget of nothing; to switch the guard off write off".into());
        }
        Ok(Self::Limit { cpu, window })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Limit { cpu, window } => {
                write!(f, "{}ns/{}ns", cpu.as_nanos(), window.as_nanos())
            }
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or(BUDGET_FORM)?;
    let scale = match &text[unit..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(BUDGET_FORM.into()),
    };
    let number: u64 = text[..unit].parse().map_err(|_| BUDGET_FORM)?;
    number.checked_mul(scale).map(Duration::from_nanos).ok_or_else(|| BUDGET_FORM.into())
}

/// `LO-HI`: the real-time priorities that time-critical threads get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtRange {
    /// Priority of nice 19.
    pub low: u8,
    /// Priority of nice -20.
    pub high: u8,
}

impl FromStr for RtRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "write LO-HI, real-time priorities from 1 to 98 with the lower one first, as in 10-49";
        let (low, high) = text.split_once('-').ok_or(FORM)?;
        let number = |text: &str| {
            let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|n| all_digits && (1..=98).contains(n)).ok_or(FORM)
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(FORM.into());
        }
        Ok(Self { low, high })
    }
}

impl fmt::Display for RtRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pattern_may_carry_a_priority() {
        let critical = |glob: &str, nice| Ok(Critical { glob: glob.into(), nice });
        assert_eq!("ui*".parse(), critical("ui*", None));
        assert_eq!("ui*=-20".parse(), critical("ui*", Some(-20)));
        assert_eq!("k=v=1".parse(), critical("k=v", Some(1)));
        assert_eq!("[]x]=19".parse(), critical("[]x]", Some(19)));
        assert_eq!("[!]]*".parse(), critical("[!]]*", None));
        assert_eq!("[[:alpha:]]".parse(), critical("[[:alpha:]]", None));
        assert_eq!("a\\[b".parse(), critical("a\\[b", None));
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for bad in ["", "=3", "ui=20", "ui=-21", "ui=", "ui=fast", "a,b", "[ab", "[", "[]", "[!]"] {
            assert!(bad.parse::<Critical>().is_err(), "{bad:?} was taken");
        }
        for bad in ["x\\", "[[:alpha:]", "a-name-of-16-byte", "??????????????[ab]x"] {
            assert!(bad.parse::<Critical>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_pattern_longer_than_the_library_takes_is_refused() {
        assert!("*".repeat(63).parse::<Critical>().is_ok());
        assert!("*".repeat(64).parse::<Critical>().is_err());
        assert!(format!("{}=-20", "*".repeat(63)).parse::<Critical>().is_ok());
    }

    #[test]
    fn patterns_match_as_fnmatch_does() {
        let critical: Critical = "crit-[a-c]*=2".parse().unwrap();
        assert!(critical.matches(b"crit-a"));
        assert!(critical.matches(b"crit-b/2"));
        assert!(!critical.matches(b"crit-d"));
    }

    #[test]
    fn a_budget_is_cpu_time_in_a_window() {
        let limit = |cpu, window| {
            let (cpu, window) = (Duration::from_nanos(cpu), Duration::from_nanos(window));
            Ok(Budget::Limit { cpu, window })
        };
        assert_eq!("800ms/1s".parse(), limit(800_000_000, 1_000_000_000));
        assert_eq!("1ns/10000us".parse(), limit(1, 10_000_000));
        assert_eq!("off".parse(), Ok(Budget::Off));
        for bad in ["", "1s", "1/1", "0s/1s", "2s/1s", "1ms/9ms", "1s/3601s", "-1s/1s", "1.5s/2s"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad:?} was taken");
        }
        assert!("99999999999999999999s/1s".parse::<Budget>().is_err());
        assert!("18446744073709551615s/1s".parse::<Budget>().is_err());
    }

    #[test]
    fn a_range_holds_real_time_priorities_in_order() {
        assert_eq!("10-49".parse(), Ok(RtRange { low: 10, high: 49 }));
        assert_eq!("7-7".parse(), Ok(RtRange { low: 7, high: 7 }));
        for bad in ["", "10", "49-10", "0-5", "1-99", "+1-5", "1-+5", "a-b", "-1-5", "1-5-9"] {
            assert!(bad.parse::<RtRange>().is_err(), "{bad:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
            let _ = text.parse::<Critical>();
            let _ = text.parse::<Budget>();
            let _ = text.parse::<RtRange>();
        }

        #[test]
        fn what_was_taken_reads_the_same_after_it_was_written(
            text in r"[\]\[!^:*?\\a-c=0-9-]{1,12}",
        ) {
            if let Ok(critical) = text.parse::<Critical>() {
                prop_assert_eq!(critical.to_string().parse::<Critical>(), Ok(critical));
            }
        }

        #[test]
        fn a_bracket_is_closed_exactly_when_fnmatch_takes_it_for_a_set(
            inside in r"[\]!^a\\]{0,5}",
        ) {
            // An unclosed bracket is an ordinary character to fnmatch; then "[" + inside matches
            // a name that begins with "[".
            let glob = format!("[{inside}");
            let critical = Critical { glob: format!("{glob}*"), nice: None };
            let closed = after_bracket(inside.as_bytes()).is_some();
            if !closed && !inside.contains('\\') {
                prop_assert!(critical.matches(glob.as_bytes()));
            }
        }

        #[test]
        fn every_budget_in_range_is_taken_and_passed_on(cpu in 1u64..=1000, window in 1000u64..=60_000) {
            let text = format!("{cpu}ms/{window}ms");
            let budget: Budget = text.parse().unwrap();
            prop_assert_eq!(budget.to_string().parse::<Budget>(), Ok(budget));
        }
    }
}
