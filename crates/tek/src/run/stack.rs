// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of `tek run` about stacks: its options, and the settings of the rules files.
use crate::message;
use crate::stack_use::render::Judgement;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tek_abi::options::{self, STACK_MODES, STACK_SWITCHES};
use tek_policy::{Margin, StackSettings, StackSize, StackZones};
use tek_stack::{Costs, Mode, Rule, Store, Zones};

/// Variables of libtek(7).
pub const VARIABLE: &str = "TEK_STACK";
pub const PROFILES_VARIABLE: &str = "TEK_STACK_PROFILES";

/// libtek.so has room for so many bytes of a directory.
const MOST_DIRECTORY_BYTES: usize = 255;

/// The options.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Stacks")]
pub struct Options {
    /// Measure what stack each thread uses (report), and give new threads of a known
    /// kind what fits, with a margin (auto) or to the page (tight). With override also
    /// those whose size the program chose; with grow a reserve below; with exact peaks
    /// to the byte; these alone mean auto. With --model a SIZE from 16K to 1G: that of
    /// user-level threads for which the program asks none
    #[arg(long = "stack", value_name = "MODES|SIZE")]
    pub modes: Option<Modes>,

    /// How much of what a kind of thread used at most its stacks get
    /// [default: 1.5, with tight 1.08]
    #[arg(long = "stack-margin", value_name = "FACTOR", requires = "modes")]
    pub margin: Option<Margin>,

    /// Make no stack smaller than this [default: 64K and what the C library and
    /// signals need, with tight the latter]
    #[arg(long = "stack-floor", value_name = "SIZE", requires = "modes")]
    pub floor: Option<StackSize>,

    /// Of which share of a stack the Low Zone ends and the High Zone begins; that a
    /// thread is in the High Zone is told [default: 25%-80%]
    #[arg(long = "stack-zones", value_name = "LOW-HIGH", requires = "modes")]
    pub zones: Option<StackZones>,

    /// Where to keep what is learnt about each program [default: ~/.local/state/tek/stack,
    /// for root /var/lib/tek/stack]
    #[arg(
        long = "stack-profiles",
        alias = "profiles",
        value_name = "DIRECTORY",
        requires = "modes"
    )]
    pub profiles: Option<PathBuf>,
}

impl Options {
    /// The size of the stacks of user-level threads, in bytes.
    pub fn size(&self) -> Option<u64> {
        self.modes.and_then(|modes| modes.size)
    }

    /// The settings that rules files have as well.
    fn settings(&self) -> StackSettings {
        StackSettings {
            low: self.zones.map(|zones| zones.low),
            high: self.zones.map(|zones| zones.high),
            margin: self.margin,
            floor: self.floor,
        }
    }

    /// The first given option for the fitting of stacks.
    pub fn of_fitting(&self) -> Option<&'static str> {
        let given = [
            (self.margin.is_some(), "--stack-margin"),
            (self.floor.is_some(), "--stack-floor"),
            (self.zones.is_some(), "--stack-zones"),
            (self.profiles.is_some(), "--stack-profiles"),
        ];
        given.into_iter().find(|&(given, _)| given).map(|(_, name)| name)
    }
}

/// `report|auto|tight,override,grow,exact`; or the size of the stacks of user-level threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    mode: Option<&'static str>,
    switches: [bool; STACK_SWITCHES.len()],
    size: Option<u64>,
}

/// As the engine of user-level threads accepts it: libtek-uthread(7).
const UTHREAD_STACKS: std::ops::RangeInclusive<u64> =
    options::UTHREAD_STACK_LEAST as u64..=options::UTHREAD_STACK_MOST as u64;

impl Modes {
    /// Measure only.
    pub const REPORT: Self =
        Self { mode: Some("report"), switches: [false; STACK_SWITCHES.len()], size: None };

    /// Whether only libtek.so can follow them. User-level threads are fitted, by the profiles of
    /// kernel threads, and not measured.
    pub fn need_libtek(self) -> bool {
        let [_, grow, exact] = self.switches;
        self.mode() == "report" || grow || exact
    }

    fn mode(self) -> &'static str {
        self.mode.unwrap_or("auto")
    }
}

impl FromStr for Modes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut modes = Self::default();
        if let Ok(StackSize(bytes)) = text.parse() {
            return UTHREAD_STACKS
                .contains(&bytes)
                .then_some(Self { size: Some(bytes), ..modes })
                .ok_or_else(|| "user-level threads have stacks from 16K to 1G".into());
        }
        for word in text.split(',') {
            if let Some(mode) = STACK_MODES.iter().map(|mode| mode.name).find(|&mode| mode == word)
            {
                if let Some(other) = modes.mode.filter(|&other| other != mode) {
                    return Err(format!("{other} and {mode} exclude each other"));
                }
                modes.mode = Some(mode);
            } else if let Some(at) = STACK_SWITCHES.iter().position(|switch| switch.name == word) {
                modes.switches[at] = true;
            } else {
                return Err(format!(
                    "`{word}` is no mode: there are report, auto and tight, and with auto (which \
                     they mean alone) or tight override, grow and exact, separated by commas; and \
                     with --model a size from 16K to 1G"
                ));
            }
        }
        match (modes.mode, modes.switches.iter().position(|&on| on)) {
            (Some(mode @ ("off" | "report")), Some(at)) => Err(format!(
                "{} has no meaning with {mode}, which leaves sizes as they are",
                STACK_SWITCHES[at].name
            )),
            _ => Ok(modes),
        }
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode())?;
        let mut switches = STACK_SWITCHES.iter().zip(self.switches).filter(|(_, on)| *on);
        switches.try_for_each(|(switch, _)| write!(f, ",{}", switch.name))
    }
}

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Value of TEK_STACK; `None` leaves that of the environment.
    pub variable: Option<String>,
    /// Directory of the profiles to learn into; `None` if there can be none.
    pub profiles: Option<PathBuf>,
    /// Value of TEK_STACK_PROFILES: the directories that profiles are read from.
    pub read: Option<OsString>,
    /// Where zones meet, for reports.
    pub zones: Zones,
    /// How sizes are chosen, for reports.
    pub rule: Rule,
}

impl Tuning {
    /// From the options and the files; `None` if stacks are left alone. After an `Err` its message
    /// is printed and nothing is run.
    pub fn of(options: &Options, files: StackSettings) -> Result<Option<Self>, String> {
        let inherited = || env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        let settings = files.overridden_by(options.settings());
        let usual = Zones::default();
        let zones = Zones {
            low_percent: settings.low.map_or(usual.low_percent, |percent| percent.0),
            high_percent: settings.high.map_or(usual.high_percent, |percent| percent.0),
        };
        if zones.low_percent > zones.high_percent {
            return Err(format!(
                "the Low Zone of stacks would end at {}%, above the {}% where the High Zone \
                 begins: mend [stack] in the rules files, or give --stack-zones",
                zones.low_percent, zones.high_percent
            ));
        }
        let modes = options.modes.filter(|modes| modes.size.is_none());
        let variable = match modes {
            Some(modes) => Some(variable(modes, settings)),
            // libtek.so checks the whole value.
            None if inherited().is_some_and(|text| text != "off") => None,
            None => return Ok(None),
        };
        let word = modes.map(|modes| modes.to_string()).or_else(inherited);
        let word = word.unwrap_or_default();
        let mode = if word.starts_with("tight") { Mode::Tight } else { Mode::Auto };
        let margin = settings.margin.map(|margin| margin.0.into());
        let floor = settings.floor.map(|floor| floor.0);
        let rule = Rule {
            overrides: word.split(',').any(|word| word == "override"),
            ..Rule::new(mode, margin, floor, Costs::here())
        };
        if word == "off" {
            return Ok(Some(Self { variable, profiles: None, read: None, zones, rule }));
        }
        let (profiles, read) = profiles(options);
        Ok(Some(Self { variable, profiles, read, zones, rule }))
    }

    /// How reports judge.
    pub fn judgement(&self) -> Judgement {
        Judgement { rule: self.rule, zones: self.zones }
    }

    /// Whether anything is measured.
    pub fn is_on(&self) -> bool {
        self.variable.as_deref() != Some("off")
    }
}

fn variable(modes: Modes, settings: StackSettings) -> String {
    if modes.mode() == "off" {
        return "off".to_owned();
    }
    let mut text = modes.to_string();
    let numbers = [
        ("low", settings.low.map(|percent| percent.0.into())),
        ("high", settings.high.map(|percent| percent.0.into())),
        ("margin", settings.margin.map(|margin| margin.0.into())),
        ("floor", settings.floor.map(|floor| floor.0)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            text.push_str(&format!(",{name}={number}"));
        }
    }
    text
}

/// The directory of a device's common profiles, for every program.
const COMMON_PROFILES: &str = "/var/lib/tek/stack";

/// The directory of TEK_STACK_PROFILES to learn into: the first one in it.
pub fn inherited_profiles() -> Option<PathBuf> {
    let list = env::var_os(PROFILES_VARIABLE)?;
    let first = directories(&list).next();
    first
}

fn directories(list: &OsStr) -> impl Iterator<Item = PathBuf> + '_ {
    let parts = list.as_bytes().split(|&byte| byte == b':').filter(|part| !part.is_empty());
    parts.map(|part| PathBuf::from(OsStr::from_bytes(part)))
}

/// The directory to learn into, and the list of those to read from. If there can be none, a message
/// is printed, and the program runs.
fn profiles(options: &Options) -> (Option<PathBuf>, Option<OsString>) {
    let inherited = || env::var_os(PROFILES_VARIABLE).filter(|list| !list.is_empty());
    let wanted: Result<Vec<_>, _> = match (&options.profiles, inherited()) {
        (Some(given), _) => Ok(vec![given.clone()]),
        (None, Some(list)) => Ok(directories(&list).collect()),
        (None, None) => Store::usual_directory().map(|own| {
            let common = Path::new(COMMON_PROFILES);
            let common = (common != own && common.is_dir()).then(|| common.to_owned());
            [own].into_iter().chain(common).collect()
        }),
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => {
            nothing_is_learnt(&error.to_string());
            return (None, None);
        }
    };
    // Absolute, because the program may change its directory.
    let wanted = wanted.into_iter().map(|path| std::path::absolute(&path).unwrap_or(path));
    let (fitting, remaining): (Vec<_>, Vec<_>) = wanted.partition(|path| {
        let bytes = path.as_os_str().as_bytes();
        bytes.len() <= MOST_DIRECTORY_BYTES && !bytes.contains(&b':')
    });
    for path in &remaining {
        nothing_is_learnt(&format!(
            "{} is longer than {MOST_DIRECTORY_BYTES} bytes, or has a colon",
            path.display()
        ));
    }
    let Some(first) = fitting.first().filter(|_| remaining.is_empty()) else { return (None, None) };
    let is_usual = options.profiles.is_none() && inherited().is_none();
    let created = if is_usual { Store::create_all(first) } else { Store::create(first) };
    let learnt = created.map_err(|error| nothing_is_learnt(&error.to_string())).ok();
    let list: Vec<_> = fitting.iter().map(|path| path.as_os_str().as_bytes()).collect();
    (learnt.map(|store| store.directory().to_owned()), Some(OsString::from_vec(list.join(&b':'))))
}

/// Prints the reason.
pub fn nothing_is_learnt(why: &str) {
    message::print(&format!(
        "nothing is learnt about stacks: {why}; --stack-profiles names another directory"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::parsed::parsed;

    mod reader {
        include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
    }

    #[test]
    fn the_variable_is_read_and_written_as_the_library_reads_it() {
        for vector in reader::read("options.txt") {
            let (text, place) = (vector.word(2), &vector.place);
            if vector.word(0) != VARIABLE {
                continue;
            }
            if vector.word(1) == "written" {
                let options: Options = parsed(vector.word(3));
                assert_eq!(variable(options.modes.unwrap(), options.settings()), text, "{place}");
                continue;
            }
            let modes = text.parse::<Modes>().ok().filter(|modes| modes.size.is_none());
            let meaning = modes.map(|modes| {
                let mode = STACK_MODES.iter().position(|mode| mode.name == modes.mode()).unwrap();
                let switches = modes.switches.map(usize::from);
                [mode].into_iter().chain(switches).map(|number| number.to_string()).collect()
            });
            let taken = vector.word(1) == "taken";
            assert_eq!(meaning, taken.then(|| vector.words[3..].to_vec()), "{place}");
        }
    }

    fn read(text: &str) -> Result<String, String> {
        text.parse::<Modes>().map(|modes| modes.to_string())
    }

    #[test]
    fn switches_alone_mean_auto() {
        assert_eq!(read("report").unwrap(), "report");
        assert_eq!(read("override").unwrap(), "auto,override");
        assert_eq!(read("exact,tight,grow").unwrap(), "tight,grow,exact");
        assert_eq!(read("off").unwrap(), "off");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (text, reported) in [
            ("", "`` is no mode"),
            ("auto,", "`` is no mode"),
            ("Auto", "`Auto` is no mode"),
            ("low=5", "`low=5` is no mode"),
            ("auto,tight", "auto and tight exclude each other"),
            ("report,override", "override has no meaning with report"),
            ("grow,off", "grow has no meaning with off"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(reported), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_library_gets_what_was_set_and_no_more() {
        let settings = StackSettings {
            low: Some("10%".parse().unwrap()),
            margin: Some("2".parse().unwrap()),
            floor: Some("128K".parse().unwrap()),
            ..StackSettings::default()
        };
        assert_eq!(variable(Modes::REPORT, StackSettings::default()), "report");
        let text = variable("tight,grow".parse().unwrap(), settings);
        assert_eq!(text, "tight,grow,low=10,margin=200,floor=131072");
        assert_eq!(variable("off".parse().unwrap(), settings), "off");
    }

    #[test]
    fn the_command_line_wins_and_zones_that_overlap_in_the_end_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let files = StackSettings { low: Some("90%".parse().unwrap()), ..Default::default() };
        let mut options = Options {
            modes: Some(Modes::REPORT),
            profiles: Some(directory.path().join("new")),
            ..Options::default()
        };
        let error = Tuning::of(&options, files).unwrap_err();
        assert!(error.contains("at 90%, above the 80%"), "{error}");
        options.zones = Some("30%-70%".parse().unwrap());
        let tuning = Tuning::of(&options, files).unwrap().unwrap();
        assert_eq!(tuning.variable.as_deref(), Some("report,low=30,high=70"));
        assert_eq!(tuning.profiles, options.profiles);
        assert!(tuning.is_on());
    }
}
