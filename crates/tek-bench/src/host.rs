// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts of a machine that are needed to understand numbers measured on it.

use serde::Serialize;
use std::thread::sleep;
use std::time::Duration;
use tek_command::system::{self, line};
use tek_model::processes;

/// The machine and its settings; a part that it does not have is `None`.
#[derive(Serialize)]
pub struct Host {
    pub kernel: String,
    pub architecture: &'static str,
    pub cpu: Option<String>,
    pub cpus: usize,
    /// Whether the kernel schedules sessions, not threads, fairly against each other. It decides
    /// the results of a conventional system.
    pub autogroup: Option<bool>,
    pub governor: Option<String>,
    pub cgroups: Vec<String>,
    /// Whether stalld runs, which gives starving threads CPU time.
    pub stalld: bool,
    /// Share of its CPU time that the machine used just before the run, 0 to 1.
    pub busy_before: Option<f64>,
}

impl Host {
    /// Reads it all; takes half a second.
    pub fn read() -> Host {
        Host {
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            architecture: std::env::consts::ARCH,
            cpu: line("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get()),
            autogroup: system::autogroup(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            cgroups: line("/proc/self/cgroup")
                .map(|text| text.lines().map(str::to_owned).collect())
                .unwrap_or_default(),
            stalld: runs("stalld"),
            busy_before: measure_busy(),
        }
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let autogroup = match self.autogroup {
            Some(true) => "autogroup on",
            Some(false) => "autogroup off",
            None => "no autogroup",
        };
        let mut parts = vec![
            format!("Linux {}", self.kernel),
            format!("{} {} CPUs", self.cpus, self.architecture),
            autogroup.to_owned(),
            match &self.governor {
                Some(governor) => format!("governor {governor}"),
                None => "no CPU frequency governor".to_owned(),
            },
        ];
        if self.stalld {
            parts.push("stalld runs".to_owned());
        }
        if let Some(busy) = self.busy_before {
            parts.push(format!("{:.0}% busy before the run", busy * 100.0));
        }
        parts.join(", ")
    }

    /// The machine, as the last line of a plot names it.
    pub fn caption(&self) -> String {
        let cpu = self.cpu.as_deref().unwrap_or(self.architecture);
        let mut caption = format!("{} CPUs of {cpu}, Linux {}.", self.cpus, self.kernel);
        if let Some(busy) = self.busy_before.filter(|_| self.warning().is_some()) {
            caption += &format!(" Other programs used {:.0}% of the CPUs before.", 100.0 * busy);
        }
        caption
    }

    /// A warning if other work disturbs the measurement.
    pub fn warning(&self) -> Option<String> {
        let busy = self.busy_before.filter(|busy| *busy > 0.1)?;
        Some(format!(
            "other programs used {:.0}% of the CPU time just before the run: end them, or expect \
             noise",
            busy * 100.0
        ))
    }
}

/// Whether a process of this name runs.
fn runs(name: &str) -> bool {
    let pids = processes().unwrap_or_default().into_iter();
    pids.filter_map(|pid| line(format!("/proc/{pid}/comm"))).any(|comm| comm == name)
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| matches!(key.trim(), "model name" | "Model" | "Hardware"))
        .map(|(_, value)| value.trim().to_owned())
}

fn measure_busy() -> Option<f64> {
    let first = cpu_times(&line("/proc/stat")?)?;
    sleep(Duration::from_millis(500));
    let last = cpu_times(&line("/proc/stat")?)?;
    let total = last.1.checked_sub(first.1).filter(|total| *total > 0)?;
    Some(last.0.saturating_sub(first.0) as f64 / total as f64)
}

/// Ticks (busy, all) since boot from /proc/stat.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .take(8) // what follows (guest time) is already in the first ones
        .collect();
    let idle = fields.get(3)? + fields.get(4)?; // idle and waiting for I/O
    let total: u64 = fields.iter().sum();
    Some((total - idle, total))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Some machine.
    pub fn host() -> Host {
        Host {
            kernel: "6.18.1".to_owned(),
            architecture: "x86_64",
            cpu: Some("Model <1>".to_owned()),
            cpus: 2,
            autogroup: None,
            governor: None,
            cgroups: Vec::new(),
            stalld: false,
            busy_before: None,
        }
    }

    #[test]
    fn the_caption_names_the_machine_and_other_programs_if_they_were_busy() {
        let of = |busy| Host { busy_before: Some(busy), ..host() }.caption();
        assert_eq!(of(0.05), "2 CPUs of Model <1>, Linux 6.18.1.");
        assert!(of(0.5).ends_with(" Other programs used 50% of the CPUs before."));
    }

    #[test]
    fn stalld_is_named_if_it_runs() {
        assert!(!host().describe().contains("stalld"));
        assert!(Host { stalld: true, ..host() }.describe().ends_with(", stalld runs"));
    }

    #[test]
    fn a_running_process_is_found_by_its_name() {
        let own = line("/proc/self/comm").unwrap();
        assert!(runs(&own) && !runs("no-such-program"));
    }

    #[test]
    fn idle_and_io_wait_are_not_busy_and_guest_time_counts_once() {
        let times = cpu_times("cpu  10 1 5 80 4 0 0 0 10 0\ncpu0 1 2 3").unwrap();
        assert_eq!(times, (16, 100));
    }

    #[test]
    fn the_cpu_model_is_found_on_x86_and_on_arm() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: X 1").as_deref(), Some("X 1"));
        assert_eq!(cpu_model("Model\t\t: Raspberry Pi 3").as_deref(), Some("Raspberry Pi 3"));
        assert_eq!(cpu_model("processor : 0"), None);
    }
}
