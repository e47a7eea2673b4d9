// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run --lock` and its like: other locks for a program, by libtek-sync.so.
//!
//! The library has one variable, `TEK_SYNC` of libtek-sync(7). The names are those of lib/sync.
//! They are checked here, because the library can only complain when the program runs already.
use clap::ValueEnum;
use std::ffi::OsStr;
use tek_abi::options::MOST_SPINS;
use tek_command::values::kind::name_of;
use tek_command::values::lock::{Barrier, Lock, Rwlock};

/// The variable that the library reads.
pub const VARIABLE: &str = "TEK_SYNC";

/// The options.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Locks")]
pub struct Options {
    /// What the program's mutexes, condition variables and spin locks are, instead of the C
    /// library's; robust mutexes and those of several processes stay as they are. With auto
    /// --report says what locks came to
    #[arg(long, value_name = "NAME")]
    pub lock: Option<Lock>,

    /// What its read-write locks are
    #[arg(long, value_name = "NAME")]
    pub rwlock: Option<Rwlock>,

    /// What its barriers are
    #[arg(long, value_name = "NAME")]
    pub barrier: Option<Barrier>,

    /// The most spin iterations, of about 50 ns each, before a thread sleeps, where its lock has it
    /// sleep; fewer where that has not paid [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_SPINS)))]
    pub spin: Option<u32>,
}

impl Options {
    /// The requested locks; the environment's settings hold for those that no option sets.
    /// `Ok(None)`: no request.
    pub fn wanted(
        &self,
        inherited: Option<&OsStr>,
        report: bool,
        on_uthreads: bool,
    ) -> Result<Option<Wanted>, String> {
        let mut settings = inherited.map(read).transpose()?.unwrap_or_default();
        let given = [
            ("lock", self.lock.map(name_of)),
            ("rwlock", self.rwlock.map(name_of)),
            ("barrier", self.barrier.map(name_of)),
            ("spin", self.spin.map(|spins| spins.to_string())),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                set(&mut settings, name, value);
            }
        }
        let has = |name| settings.iter().any(|(known, _)| known == name);
        let of = |name| settings.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        if !has("lock") && !has("rwlock") && !has("barrier") {
            return match self.spin {
                Some(_) => Err(SPIN_ALONE.into()),
                None => Ok(None),
            };
        }
        let mut notes = Vec::new();
        if self.spin.is_some() && !SPIN_AND_SLEEP.iter().any(|&(name, kind)| of(name) == Some(kind))
        {
            notes.push(
                "--spin has no effect: of what was asked for nothing spins for a while and then \
                 sleeps",
            );
        }
        if on_uthreads && self.lock.map(name_of).as_deref() == Some("pi") {
            notes.push(
                "--lock pi is a futex here: user-level threads have no priorities of the kernel's \
                 to lend",
            );
        }
        if report && of("lock") == Some("auto") {
            set(&mut settings, "report", "1".into());
        }
        let items: Vec<_> =
            settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Some(Wanted { variable: items.join(","), notes }))
    }
}

const SPIN_ALONE: &str =
    "--spin says how long locks spin before they sleep: give --lock, --rwlock or --barrier with it";

/// The locks to which `--spin` applies.
const SPIN_AND_SLEEP: [(&str, &str); 6] = [
    ("lock", "park"),
    ("lock", "pi"),
    ("lock", "auto"),
    ("rwlock", "park"),
    ("barrier", "block"),
    ("barrier", "auto"),
];

/// The settings for the library.
#[derive(Debug)]
pub struct Wanted {
    /// Value of [`VARIABLE`].
    pub variable: String,
    /// Notes for the user that asked for it.
    pub notes: Vec<&'static str>,
}

/// The last value of each name, in the order of the names' first ones.
type Settings = Vec<(String, String)>;

fn set(settings: &mut Settings, name: &str, value: String) {
    match settings.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => settings.push((name.into(), value)),
    }
}

/// A value of [`VARIABLE`], as the library reads it.
fn read(text: &OsStr) -> Result<Settings, String> {
    let text = text.to_string_lossy();
    let mut settings = Settings::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let known = item.split_once('=').filter(|&(name, value)| is_known(name, value));
        let (name, value) = known.ok_or_else(|| {
            format!(
                "{VARIABLE} is {text}: {item} is not known; write lock=NAME, rwlock=NAME, \
                 barrier=NAME, spin=N or report=1, with commas between them, and the names as \
                 --lock and its like take them"
            )
        })?;
        set(&mut settings, name, value.into());
    }
    Ok(settings)
}

fn is_known(name: &str, value: &str) -> bool {
    match name {
        "lock" => Lock::from_str(value, false).is_ok(),
        "rwlock" => Rwlock::from_str(value, false).is_ok(),
        "barrier" => Barrier::from_str(value, false).is_ok(),
        "spin" => {
            value.bytes().all(|byte| byte.is_ascii_digit())
                && value.parse().is_ok_and(|spins| (0..=MOST_SPINS).contains(&spins))
        }
        "report" => value == "1",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::parsed::{parsed, tried};

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    #[test]
    fn the_variable_is_read_and_written_as_the_library_reads_it() {
        for vector in reader::read("options.txt") {
            let (text, place) = (vector.word(2), &vector.place);
            match (vector.word(0), vector.word(1)) {
                (VARIABLE, "written") => {
                    let words = vector.word(3).replace("--report", "");
                    let report = words.len() < vector.word(3).len();
                    let options: Options = parsed(&words);
                    let wanted = options.wanted(None, report, false).unwrap().unwrap();
                    assert_eq!(wanted.variable, text, "{place}");
                }
                (VARIABLE, kind) => {
                    let meaning = read(OsStr::new(text)).ok().map(|settings| {
                        let of = |name| settings.iter().find(|(known, _)| known == name);
                        let value = |name| of(name).map_or("-".into(), |(_, value)| value.clone());
                        ["lock", "rwlock", "barrier", "spin", "report"].map(value).to_vec()
                    });
                    let taken = kind == "taken";
                    assert_eq!(meaning, taken.then(|| vector.words[3..].to_vec()), "{place}");
                }
                _ => {}
            }
        }
    }

    fn wanted(options: &str, inherited: &str) -> Result<Option<Wanted>, String> {
        parsed::<Options>(options).wanted(Some(OsStr::new(inherited)), true, true)
    }

    fn variable(options: &str, inherited: &str) -> Option<String> {
        wanted(options, inherited).unwrap().map(|wanted| wanted.variable)
    }

    #[test]
    fn all_options_become_one_list() {
        assert_eq!(
            variable("--lock ticket-pb --rwlock pf --barrier block --spin 0", "").as_deref(),
            Some("lock=ticket-pb,rwlock=pf,barrier=block,spin=0")
        );
        assert_eq!(variable("--lock auto", "").as_deref(), Some("lock=auto,report=1"));
        assert_eq!(variable("", ""), None);
    }

    #[test]
    fn the_environment_gives_defaults_and_asks_alone() {
        assert_eq!(
            variable("--lock park", "lock=k42,,barrier=auto").as_deref(),
            Some("lock=park,barrier=auto")
        );
        assert_eq!(variable("", "lock=k42").as_deref(), Some("lock=k42"));
        assert_eq!(variable("--spin 3", "rwlock=park").as_deref(), Some("rwlock=park,spin=3"));
        assert_eq!(variable("", "spin=3"), None);
    }

    #[test]
    fn what_the_library_would_not_understand_is_refused() {
        for text in
            ["lock", "lock=", "lock=lottery", "spin=-1", "spin=1000000001", "report=2", "x=1"]
        {
            let refused = wanted("", text).unwrap_err();
            assert!(refused.starts_with(&format!("TEK_SYNC is {text}: ")), "{refused}");
        }
    }

    #[test]
    fn spins_alone_print_nothing() {
        assert!(wanted("--spin 10", "").unwrap_err().starts_with("--spin"));
        assert!(wanted("--spin 10 --barrier block", "").unwrap().unwrap().notes.is_empty());
        let refused = |spins| tried::<Options>(["--spin", spins]).err().unwrap();
        assert!(refused("1000000001").to_string().contains("0..=1000000000"));
        assert!(refused("-1").to_string().contains("0..=1000000000"));
    }

    #[test]
    fn what_an_option_does_not_do_is_reported() {
        let notes = |options, inherited| wanted(options, inherited).unwrap().unwrap().notes;
        assert!(notes("--lock k42 --spin 5", "")[0].starts_with("--spin has no effect"));
        assert!(notes("--lock pi", "")[0].starts_with("--lock pi is a futex here"));
        assert!(notes("", "lock=k42,spin=5").is_empty());
    }
}
