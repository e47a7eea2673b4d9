// SPDX-License-Identifier: MIT OR Apache-2.0
//! On which CPU each thread of a program runs: values of `--place`.
use crate::suggested::Suggested;
use crate::system::topology;
use std::fmt::Write as _;
use std::str::FromStr;
use tek_abi::options;

/// libtek.so knows CPUs below this number.
pub const MOST_CPUS: u32 = options::PLACE_MOST_CPUS;

/// The priority of a plain `rtfifo`, and the highest: the kernel's interrupt threads have 50.
pub const USUAL_PRIORITY: u8 = options::PLACE_USUAL_PRIORITY as u8;
const MOST_PRIORITY: u8 = options::PLACE_MOST_PRIORITY as u8;

/// The form of the option, with an example that works on this machine.
fn form() -> String {
    format!(
        "write rtfifo, rtfifo=PRIORITY, spread, compact or cores=LIST, or rtfifo and one of the \
         others with a comma between them, as in rtfifo,cores={}",
        ranges(&topology::allowed())
    )
}

/// The option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The real-time priority that threads get.
    pub rtfifo: Option<u8>,
    /// In which order threads get CPUs.
    pub order: Order,
}

/// In which order CPUs are dealt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// By their numbers, as in the paper.
    Numbers,
    /// As far from each other as can be.
    Spread,
    /// As near to each other as can be.
    Compact,
    /// By this list.
    Cores(Vec<u32>),
}

/// Parses the option, and has the values for shells' completion.
pub const PLACES: Suggested<Place> = Suggested {
    parse: |text| text.parse(),
    names: || ["rtfifo", "spread", "compact", "cores=0"].map(Into::into).into(),
};

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut rtfifo, mut order, mut rest) = (None, None, Some(text));
        while let Some(text) = rest {
            if let Some(list) = text.strip_prefix("cores=") {
                // The list has commas of its own, so it is the last item.
                let first = order.replace(Order::Cores(cores(list)?)).is_none();
                rest = None;
                if !first {
                    return Err(form());
                }
                continue;
            }
            let (item, behind) =
                text.split_once(',').map_or((text, None), |(item, behind)| (item, Some(behind)));
            rest = behind;
            let first = match (item, item.strip_prefix("rtfifo=")) {
                ("spread", _) => order.replace(Order::Spread).is_none(),
                ("compact", _) => order.replace(Order::Compact).is_none(),
                ("rtfifo", _) => rtfifo.replace(USUAL_PRIORITY).is_none(),
                (_, Some(text)) => rtfifo.replace(priority(text)?).is_none(),
                _ => return Err(form()),
            };
            if !first {
                return Err(form());
            }
        }
        Ok(Self { rtfifo, order: order.unwrap_or(Order::Numbers) })
    }
}

/// The priority after `rtfifo=`.
pub fn priority(text: &str) -> Result<u8, String> {
    let number = decimal(text).and_then(|number| u8::try_from(number).ok());
    number.filter(|number| (1..=MOST_PRIORITY).contains(number)).ok_or_else(|| {
        format!(
            "the priority of rtfifo is a number from 1 to {MOST_PRIORITY}: the kernel's interrupt \
             threads have 50"
        )
    })
}

/// Digits alone, without a sign.
pub fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A list such as `0-3,6`, in its order.
fn cores(list: &str) -> Result<Vec<u32>, String> {
    let form = || {
        let own = ranges(&topology::allowed());
        format!("write CPUs after cores=, numbers and ranges with the lower one first, as in {own}")
    };
    let number = |text| decimal(text).filter(|&number| number < MOST_CPUS).ok_or_else(form);
    let mut cpus = Vec::new();
    for item in list.split(',') {
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(form());
        }
        for cpu in low..=high {
            if cpus.contains(&cpu) {
                return Err(format!(
                    "CPU {cpu} is twice in the list: each is dealt in turn anyway"
                ));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Numbers in rising order as the kernel writes them, `0-3,6`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut text = String::new();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

impl Place {
    /// Whether threads are to be real-time.
    pub fn is_rtfifo(&self) -> bool {
        self.rtfifo.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "",
            ",",
            "fifo",
            "rtfifo,",
            "rtfifo,rtfifo",
            "spread,compact",
            "rtfifo=0",
            "rtfifo=50",
            "rtfifo=x",
            "rtfifo=+1",
            "cores",
            "cores=",
            "cores=,",
            "cores=1,",
            "cores=3-1",
            "cores=1-",
            "cores=-1",
            "cores=0,0",
            "cores=0-2,1",
            "cores=1024",
            "cores=+1",
            "cores=0 1",
            "spread,cores=0",
            "cores=0,rtfifo",
            "Spread",
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn a_list_comes_through(numbers in prop::collection::btree_set(0u32..1024, 1..50)) {
            let numbers: Vec<_> = numbers.into_iter().collect();
            prop_assert_eq!(cores(&ranges(&numbers)).unwrap(), numbers);
        }
    }
}
