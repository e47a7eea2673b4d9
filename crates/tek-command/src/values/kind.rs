// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options that are a name from a list of abi/tek_options.h.
use clap::builder::PossibleValue;
use clap::ValueEnum;
pub use tek_abi::options::{self, Kind};

/// Defines the type of an option's values by the list of their names.
#[macro_export]
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident of $list:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(
            /// Its place in the list.
            u8,
        );

        impl clap::ValueEnum for $name {
            fn value_variants<'a>() -> &'a [Self] {
                const COUNT: usize = $crate::values::kind::options::$list.len();
                const ALL: [$name; COUNT] = {
                    let mut all = [$name(0); COUNT];
                    let mut at = 0;
                    while at < COUNT {
                        all[at].0 = at as u8;
                        at += 1;
                    }
                    all
                };
                &ALL
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                let kind = $crate::values::kind::options::$list.get(usize::from(self.0))?;
                Some($crate::values::kind::possible(kind))
            }
        }
    };
}

/// A kind as `--help` and completions have it.
pub fn possible(kind: &Kind) -> PossibleValue {
    let mut about = kind.about.to_owned();
    if let Some(first) = about.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    PossibleValue::new(kind.name).help(about)
}

/// As the command line has it.
pub fn name_of<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().as_ref().map(PossibleValue::get_name).unwrap_or_default().to_owned()
}
