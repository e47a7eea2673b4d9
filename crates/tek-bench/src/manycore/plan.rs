// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan: which settings of which program with how many threads.

use super::programs::{with_barrier, Cell};
use super::setting::{unique, Axes, Preset, Setting};
use super::{Args, Part};

/// The numbers of threads with which bounds.toml judges locks.
const JUDGED_THREADS: [usize; 5] = [1, 2, 4, 8, 32];

/// The whole plan.
pub struct Plan {
    pub parts: Vec<Part>,
    pub rounds: usize,
    pub little: bool,
    pub cpus: usize,
    pub threads: Vec<usize>,
    pub presets: Vec<Preset>,
    pub axes: Axes,
    full: bool,
    figures: bool,
    chosen_threads: bool,
    chosen_allocs: bool,
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&it| it.to_owned()).collect()
}

/// The given list, or else the usual one.
fn or<T: Clone>(given: &[T], usual: Vec<T>) -> Vec<T> {
    if given.is_empty() {
        usual
    } else {
        given.to_vec()
    }
}

/// 1, 2, 4 and so on up to four times the CPUs.
fn steps(cpus: usize) -> Vec<usize> {
    let most = 4 * cpus.max(1);
    let mut all: Vec<usize> =
        std::iter::successors(Some(1), |it| Some(it * 2)).take_while(|&it| it < most).collect();
    all.push(most);
    all
}

impl Plan {
    /// As the command line has it.
    pub fn of(args: &Args, cpus: usize) -> Plan {
        use clap::ValueEnum;
        let little = args.judge.quick;
        let mut parts = or(&args.parts, Part::value_variants().to_vec());
        if parts.contains(&Part::Spin) {
            parts.push(Part::Uncontended);
        }
        parts.sort();
        parts.dedup();
        let given = !args.preset.is_empty();
        // If the user names presets, only these run, unless the user names something else too.
        let usual = |list: &[&str]| if given { Vec::new() } else { words(list) };
        let locks: &[&str] =
            if little { &["park"] } else { &["ticket", "k42", "tp", "park", "auto"] };
        let barriers: &[&str] = if little {
            &["glibc", "block"]
        } else {
            &["glibc", "central", "dissemination", "block", "auto"]
        };
        let axes = Axes {
            models: or(&args.models, {
                use super::setting::Model::{Fifo, Steal};
                if given {
                    Vec::new()
                } else {
                    vec![Fifo, Steal]
                }
            }),
            places: or(&args.places, usual(&["rtfifo"])),
            locks: or(&args.locks, usual(locks)),
            barriers: or(&args.barriers, usual(barriers)),
            allocs: or(&args.allocs, usual(&["mimalloc"])),
        };
        let mut threads = or(&args.threads, if little { vec![1, 2] } else { steps(cpus) });
        threads.sort_unstable();
        threads.dedup();
        Plan {
            parts,
            rounds: args.rounds.map_or(if little { 1 } else { 5 }, usize::from),
            little,
            cpus,
            threads,
            presets: or(&args.preset, Preset::value_variants().to_vec()),
            axes,
            full: args.full,
            figures: !args.no_figures,
            chosen_threads: !args.threads.is_empty(),
            chosen_allocs: !args.allocs.is_empty(),
        }
    }

    /// The numbers of threads for which spin locks are judged; none where the user chose the
    /// numbers.
    pub fn judged_threads(&self) -> Vec<usize> {
        if self.little || self.chosen_threads {
            Vec::new()
        } else {
            JUDGED_THREADS.to_vec()
        }
    }

    /// The allocators of Fig. 6.
    pub fn allocs(&self) -> Vec<String> {
        // TLSF has one lock, as newlib's and theirs.
        let usual = words(&["glibc", "tlsf", "mimalloc", "jemalloc", "tcmalloc"]);
        let mut all = words(&["glibc"]);
        all.extend(if self.chosen_allocs { self.axes.allocs.clone() } else { usual });
        unique(all)
    }

    fn settings(&self, program: Part) -> Vec<Setting> {
        let is_streamcluster = program == Part::Streamcluster;
        if !self.figures {
            let mut judged = vec![Setting::default()];
            if is_streamcluster {
                judged.extend(["block", "auto"].map(with_barrier));
            }
            return judged;
        }
        let presets = self.presets.iter().map(|it| it.setting());
        let mut all: Vec<Setting> = presets.clone().collect();
        if is_streamcluster && !self.little {
            // Fig. 13.
            let spinning = Some("central".to_owned());
            all.extend(presets.map(|it| Setting { barrier: spinning.clone(), ..it }));
        }
        let axes = if is_streamcluster { self.axes.clone() } else { self.axes.without_barriers() };
        all.extend(if self.full { axes.all() } else { axes.one_by_one() });
        unique(all)
    }

    /// The cells that the four programs run.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for program in self.parts.iter().copied().filter(|it| it.is_program()) {
            for setting in self.settings(program) {
                for &threads in &self.threads {
                    cells.push(Cell { program, setting: setting.clone(), threads });
                }
            }
        }
        cells
    }

    /// The cells to profile: the paper's settings, and none.
    pub fn profiled(&self) -> Vec<Cell> {
        if !self.figures {
            return Vec::new();
        }
        let mut cells = self.cells();
        cells.retain(|it| {
            it.setting == Setting::default()
                || it.setting.preset.is_some() && it.setting.barrier.is_none()
        });
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn plan(words: &[&str]) -> Plan {
        let words = std::iter::once("manycore").chain(words.iter().copied());
        Plan::of(&Command::try_parse_from(words).unwrap().args, 2)
    }

    #[test]
    fn threads_double_up_to_four_times_the_cpus() {
        assert_eq!(steps(1), [1, 2, 4]);
        assert_eq!(steps(3), [1, 2, 4, 8, 12]);
        assert_eq!(plan(&[]).threads, [1, 2, 4, 8]);
        assert_eq!(plan(&["--threads", "8,1,8"]).threads, [1, 8]);
    }

    #[test]
    fn a_named_preset_is_used_and_none_beside_it() {
        let plan = plan(&["--preset", "fmp-k42", "--parts", "dedup", "--threads", "2"]);
        let settings: Vec<String> = plan.cells().iter().map(|it| it.setting.name()).collect();
        assert_eq!(settings, ["fmp-k42", "1:1"]);
    }

    #[test]
    fn only_streamcluster_has_barriers() {
        let of = |program: &str| plan(&["--parts", program]).cells();
        assert!(of("dedup").iter().all(|it| it.setting.barrier.is_none()));
        let barriers = of("streamcluster");
        assert!(barriers.iter().any(|it| it.setting == with_barrier("dissemination")));
        assert!(barriers.iter().any(|it| it.setting.name() == "fmp-base, barrier central"));
    }

    #[test]
    fn without_figures_only_what_is_judged_is_measured() {
        let plan = plan(&["--no-figures", "--parts", "streamcluster", "--threads", "2"]);
        assert_eq!(plan.cells().len(), 3);
        assert!(plan.profiled().is_empty());
    }

    #[test]
    fn spin_locks_are_measured_without_contention_too() {
        assert_eq!(plan(&["--parts", "spin"]).parts, [Part::Spin, Part::Uncontended]);
        assert_eq!(plan(&["--parts", "uncontended"]).parts, [Part::Uncontended]);
    }

    #[test]
    fn in_full_there_is_more() {
        assert!(plan(&["--full"]).cells().len() > 4 * plan(&[]).cells().len());
    }

    #[test]
    fn allocators_are_compared_with_the_c_librarys() {
        assert_eq!(plan(&[]).allocs()[0], "glibc");
        assert_eq!(plan(&["--allocs", "tlsf,mimalloc"]).allocs(), ["glibc", "tlsf", "mimalloc"]);
    }
}
