// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a program: the paper's (Table 1), and the options of `tek run` for them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tek_command::values::alloc::Alloc;
use tek_command::values::kind::name_of;
use tek_command::values::lock::{Barrier, Lock};
use tek_command::values::place::Place;

/// The model of a program's threads. The aliases are the names in results that were kept earlier.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
pub enum Model {
    /// The kernel's
    #[default]
    #[value(name = "1:1")]
    #[serde(rename = "1:1", alias = "kernel")]
    Kernel,
    /// User-level ones on one thread of the kernel
    #[value(name = "m:1")]
    #[serde(rename = "m:1", alias = "one")]
    One,
    /// User-level ones, dealt to a worker for each CPU and first come, first served: RtFIFO
    #[value(name = "m:n-fifo")]
    #[serde(rename = "m:n-fifo", alias = "fifo")]
    Fifo,
    /// User-level ones that idle workers take from others
    #[value(name = "m:n-steal")]
    #[serde(rename = "m:n-steal", alias = "steal")]
    Steal,
}

/// The program's own barrier, by hand.
pub const OWN_BARRIER: &str = "own";
/// The C library's of each kind: `tek run` has no option for it.
pub const GLIBC: &str = "glibc";
/// Linux places the threads.
const NOWHERE: &str = "none";

/// `name`, if it is one of these or of the kinds that `tek run` knows.
fn kind<T: ValueEnum>(name: &str, remaining: &[&str]) -> Result<String, String> {
    if remaining.contains(&name) || T::from_str(name, false).is_ok() {
        return Ok(name.to_owned());
    }
    let values = T::value_variants().iter().filter_map(T::to_possible_value);
    let mut names: Vec<_> = values.map(|it| it.get_name().to_owned()).collect();
    names.extend(remaining.iter().map(|&it| it.to_owned()));
    Err(format!("there are {}", names.join(", ")))
}

/// Checks an item of `--locks`.
pub fn lock(name: &str) -> Result<String, String> {
    kind::<Lock>(name, &[GLIBC])
}

/// Checks an item of `--barriers`.
pub fn barrier(name: &str) -> Result<String, String> {
    kind::<Barrier>(name, &[GLIBC, OWN_BARRIER])
}

/// Checks an item of `--places`.
pub fn place(name: &str) -> Result<String, String> {
    match name {
        NOWHERE => Ok(name.to_owned()),
        _ => name.parse::<Place>().map(|_| name.to_owned()),
    }
}

/// Checks an item of `--allocs`.
pub fn alloc(name: &str) -> Result<String, String> {
    name.parse::<Alloc>().map(|_| name.to_owned())
}

/// The whole setting; `None`: as it is without TEK.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setting {
    /// The preset that it is.
    pub preset: Option<String>,
    pub model: Model,
    pub place: Option<String>,
    pub lock: Option<String>,
    /// `None`: the program's own, of a mutex and a condition variable; else pthread's, of this
    /// kind.
    pub barrier: Option<String>,
    pub alloc: Option<String>,
    /// Files in the program's memory instead of tmpfs.
    pub memory_files: bool,
}

impl Setting {
    /// For tables.
    pub fn name(&self) -> String {
        if let Some(preset) = &self.preset {
            return match &self.barrier {
                Some(barrier) => format!("{preset}, barrier {barrier}"),
                None => preset.clone(),
            };
        }
        let mut parts = vec![name_of(self.model)];
        let mut add = |what: &str, value: &Option<String>| {
            parts.extend(value.iter().map(|value| format!("{what} {value}")));
        };
        add("place", &self.place);
        add("lock", &self.lock);
        add("barrier", &self.barrier);
        add("alloc", &self.alloc);
        parts.join(", ")
    }

    /// The options of `tek run`; empty: the program is started as it is.
    pub fn options(&self, cpus: usize) -> Vec<String> {
        let mut options = Vec::new();
        let mut add =
            |option: &str, value: &str| options.extend([option.to_owned(), value.to_owned()]);
        match self.model {
            Model::Kernel => {}
            Model::One => add("--model", "m:1"),
            Model::Fifo | Model::Steal => {
                add("--model", "m:n");
                add("--workers", &cpus.to_string());
                add("--sched", if self.model == Model::Fifo { "fifo" } else { "steal" });
            }
        }
        let given = [
            ("--place", &self.place),
            ("--lock", &self.lock),
            ("--barrier", &self.barrier),
            ("--alloc", &self.alloc),
        ];
        for (option, value) in given {
            if let Some(value) = value.as_deref().filter(|&value| value != GLIBC) {
                add(option, value);
            }
        }
        options
    }

    /// Whether the setting beside the model is at most a kind of waiting at a barrier.
    pub fn is_plain(&self) -> bool {
        self.preset.is_none()
            && self.model == Model::Kernel
            && [&self.place, &self.lock, &self.alloc].iter().all(|it| it.is_none())
    }
}

/// The paper's settings (4.1, Table 1, and 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Preset {
    /// Their RTOS: BACKOFF, RtFIFO, RAMfs, Hoard
    FmpBase,
    /// The same with K42
    FmpK42,
    /// Linux: RtFIFO, tmpfs, nptl, Hoard
    LinuxBase,
    /// The same under CFS
    LinuxCfs,
    /// Linux-Base with the C library's allocator, as dedup starves with Hoard
    LinuxBasePt,
}

impl Preset {
    /// TEK's setting that stands for it.
    pub fn setting(self) -> Setting {
        let fmp = |lock: &str| Setting {
            model: Model::Fifo,
            lock: Some(lock.to_owned()),
            memory_files: true,
            ..Setting::default()
        };
        let rtfifo = Some("rtfifo".to_owned());
        let setting = match self {
            Preset::FmpBase => fmp("ticket"),
            Preset::FmpK42 => fmp("k42"),
            Preset::LinuxBase | Preset::LinuxBasePt => {
                Setting { place: rtfifo, ..Setting::default() }
            }
            Preset::LinuxCfs => Setting::default(),
        };
        let hoard = self != Preset::LinuxBasePt;
        Setting {
            preset: Some(name_of(self)),
            alloc: hoard.then(|| "mimalloc".to_owned()),
            ..setting
        }
    }

    /// Its translation part by part, for people.
    pub fn explain(self, cpus: usize) -> String {
        let setting = self.setting();
        let theirs = match self {
            Preset::FmpBase => "BACKOFF, RtFIFO, RAMfs, Hoard",
            Preset::FmpK42 => "K42, RtFIFO, RAMfs, Hoard",
            Preset::LinuxBase => "BACKOFF (in the kernel), RtFIFO, tmpfs, Hoard",
            Preset::LinuxCfs => "BACKOFF (in the kernel), CFS, tmpfs, Hoard",
            Preset::LinuxBasePt => "BACKOFF (in the kernel), RtFIFO, tmpfs, ptmalloc",
        };
        let options = setting.options(cpus).join(" ");
        let options = if options.is_empty() { "as it is".to_owned() } else { options };
        let files = if setting.memory_files { "memory" } else { "tmpfs" };
        format!("{:<14} {theirs} -> {options}; files {files}", name_of(self))
    }
}

/// The settings that can be varied, as lists of `tek run` options.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    pub models: Vec<Model>,
    pub places: Vec<String>,
    pub locks: Vec<String>,
    pub barriers: Vec<String>,
    pub allocs: Vec<String>,
}

fn some(list: &[String], plain: &str) -> Vec<Option<String>> {
    let mut all = vec![None];
    all.extend(list.iter().filter(|&it| it != plain).cloned().map(Some));
    all
}

impl Axes {
    /// Without barriers, where the program has none.
    pub fn without_barriers(&self) -> Axes {
        Axes { barriers: Vec::new(), ..self.clone() }
    }

    /// The unchanged setting, and each variation alone.
    pub fn one_by_one(&self) -> Vec<Setting> {
        let plain = Setting::default;
        let mut all = vec![plain()];
        all.extend(self.models.iter().map(|&model| Setting { model, ..plain() }));
        let places = some(&self.places, NOWHERE).into_iter();
        all.extend(places.map(|place| Setting { place, ..plain() }));
        let locks = some(&self.locks, GLIBC).into_iter();
        all.extend(locks.map(|lock| Setting { lock, ..plain() }));
        let barriers = some(&self.barriers, OWN_BARRIER).into_iter();
        all.extend(barriers.map(|barrier| Setting { barrier, ..plain() }));
        let allocs = some(&self.allocs, GLIBC).into_iter();
        all.extend(allocs.map(|alloc| Setting { alloc, ..plain() }));
        unique(all)
    }

    /// Each with each.
    pub fn all(&self) -> Vec<Setting> {
        let mut models = vec![Model::Kernel];
        models.extend(&self.models);
        let mut all = Vec::new();
        for &model in &models {
            for place in some(&self.places, NOWHERE) {
                for lock in some(&self.locks, GLIBC) {
                    for barrier in some(&self.barriers, OWN_BARRIER) {
                        for alloc in some(&self.allocs, GLIBC) {
                            all.push(Setting {
                                preset: None,
                                model,
                                place: place.clone(),
                                lock: lock.clone(),
                                barrier: barrier.clone(),
                                alloc,
                                memory_files: false,
                            });
                        }
                    }
                }
            }
        }
        unique(all)
    }
}

/// Each once, in the order of its first place.
pub fn unique<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut retained = Vec::new();
    for it in all {
        if !retained.contains(&it) {
            retained.push(it);
        }
    }
    retained
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        let words = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect();
        Axes {
            models: vec![Model::Fifo, Model::Steal],
            places: words(&["none", "rtfifo"]),
            locks: words(&["glibc", "k42", "park"]),
            barriers: words(&["own", "glibc", "block"]),
            allocs: words(&["glibc", "mimalloc"]),
        }
    }

    #[test]
    fn what_tek_run_would_refuse_is_refused_before_anything_is_measured() {
        for name in ["k42", "ticket-pb", "glibc"] {
            assert_eq!(lock(name).as_deref(), Ok(name));
        }
        assert!(lock("foo").unwrap_err().contains("tatas"));
        assert!(barrier("own").is_ok() && barrier("x").is_err());
        assert!(place("cores=0-1").is_ok() && place("none").is_ok() && place("foo").is_err());
        assert!(alloc("tlsf").is_ok() && alloc("pool=64M").is_ok() && alloc("hoard").is_err());
    }

    #[test]
    fn presets_become_options_of_tek_run() {
        let options = |preset: Preset| preset.setting().options(4).join(" ");
        assert_eq!(
            options(Preset::FmpK42),
            "--model m:n --workers 4 --sched fifo --lock k42 --alloc mimalloc"
        );
        assert_eq!(options(Preset::LinuxBase), "--place rtfifo --alloc mimalloc");
        assert_eq!(options(Preset::LinuxBasePt), "--place rtfifo");
        assert!(Preset::LinuxCfs.explain(4).contains("-> --alloc mimalloc; files tmpfs"));
    }

    #[test]
    fn varied_alone_each_setting_differs_from_none_in_one_thing() {
        let settings = axes().one_by_one();
        assert_eq!(settings.len(), 1 + 2 + 1 + 2 + 2 + 1);
        assert!(settings[0].is_plain() && settings[0].options(2).is_empty());
        assert_eq!(axes().without_barriers().one_by_one().len(), 7);
    }

    #[test]
    fn a_model_has_one_name_and_results_with_its_former_one_are_read() {
        for &model in Model::value_variants() {
            assert_eq!(serde_json::to_value(model).unwrap(), name_of(model));
        }
        let former = ["kernel", "one", "fifo", "steal"].map(|it| serde_json::json!(it));
        let read = former.map(|it| serde_json::from_value::<Model>(it).unwrap());
        assert_eq!(read, Model::value_variants());
    }

    #[test]
    fn in_full_each_meets_each() {
        assert_eq!(axes().all().len(), 3 * 2 * 3 * 3 * 2);
    }

    #[test]
    fn the_c_librarys_own_are_not_asked_for() {
        let setting = Setting { barrier: Some(GLIBC.to_owned()), ..Setting::default() };
        assert!(setting.options(2).is_empty());
        assert_eq!(setting.name(), "1:1, barrier glibc");
    }
}
