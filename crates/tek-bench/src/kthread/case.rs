// SPDX-License-Identifier: MIT OR Apache-2.0
//! One measurement: its task, the tasks beside it, and the settings of the machine.

use super::variant::{CRITICAL, LOAD};

/// A program of bench/kthread and its arguments; `@NAME` is a file of the benchmark's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub program: &'static str,
    pub arguments: Vec<String>,
}

impl Task {
    pub fn new(program: &'static str) -> Task {
        Task { program, arguments: Vec::new() }
    }

    /// Adds an option that has a number.
    pub fn with(mut self, option: &str, value: u64) -> Task {
        self.arguments.push(format!("--{option}"));
        self.arguments.push(value.to_string());
        self
    }

    /// With something else.
    pub fn and(mut self, argument: &str) -> Task {
        self.arguments.push(argument.to_owned());
        self
    }
}

/// A case of an experiment.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// The measured task.
    pub task: Task,
    /// The load that disturbs it: absent in the variant `alone`.
    pub load: Vec<Task>,
    /// The tasks that run in each variant.
    pub beside: Vec<Task>,
    /// Settings: file, value.
    pub settings: Vec<(&'static str, String)>,
    /// Files that are there before: name, bytes.
    pub files: Vec<(String, u64)>,
    pub seconds: f64,
    /// Beside the judged cases: measured less often.
    pub side: bool,
}

impl Case {
    pub fn new(name: impl Into<String>, task: Task, seconds: f64) -> Case {
        Case {
            name: name.into(),
            task,
            load: Vec::new(),
            beside: Vec::new(),
            settings: Vec::new(),
            files: Vec::new(),
            seconds,
            side: false,
        }
    }

    /// The amount of dirty memory from which writers wait, if the case sets it.
    pub fn dirty_bytes(&self) -> Option<u64> {
        let setting = self.settings.iter().find(|(path, _)| path.ends_with("/dirty_bytes"))?;
        setting.1.parse().ok()
    }
}

pub const MIB: u64 = 1 << 20;

/// The amount of dirty memory from which the kernel writes back, and holds writers up.
pub fn dirty(bytes: u64) -> Vec<(&'static str, String)> {
    vec![
        ("/proc/sys/vm/dirty_bytes", bytes.to_string()),
        ("/proc/sys/vm/dirty_background_bytes", (bytes / 2).to_string()),
    ]
}

/// Real-time tasks below the measured task: one on each CPU, busy for so long in each period.
pub fn hogs(period_us: u64, busy_us: u64) -> Task {
    let hog = Task::new("hog").with("priority", LOAD as u64);
    hog.with("period-us", period_us).with("busy-us", busy_us).and("--witness")
}

/// A task that writes at the priority of the measured task.
pub fn writer(bytes: u64, period_us: u64) -> Task {
    let writer = Task::new("writer").with("bytes", bytes).with("period-us", period_us);
    writer.with("priority", CRITICAL as u64).with("sample-ms", 20)
}

/// A task that reads at some priority.
pub fn reader(bytes: u64, period_us: u64, priority: i32) -> Task {
    let reader = Task::new("reader").with("bytes", bytes).with("period-us", period_us);
    reader.with("priority", priority as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_below_the_task_and_its_arguments_are_in_order() {
        let hog = hogs(500_000, 450_000);
        assert_eq!(hog.arguments[..2], ["--priority", "30"]);
        assert!(writer(16, 250).arguments.join(" ").contains("--priority 60"));
    }
}
