// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups and their members: from tekd, else from the tables of programs.
use crate::status::{self, Status};
use crate::words;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use tek_model::{Device, Wanted};
use tek_policy::Group;

/// A stable format, to which fields may be added.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Version of this format.
    pub schema: u32,
    /// Whether these are control groups, which share the CPUs.
    pub in_force: bool,
    /// If not, why: a sentence.
    pub why_not: Option<String>,
    /// Where they are.
    pub place: Option<String>,
    /// `rt` or `fair`.
    pub backend: Option<String>,
    /// Percent of the CPUs that the Lazy Region reserves under the backend `fair`.
    pub floor_percent: Option<u64>,
    /// Threads that tekd could not move.
    pub left: u64,
    /// The groups, the one with the most weight first.
    pub groups: Vec<Row>,
    /// The threads that are time-critical.
    pub fast: Vec<Fast>,
}

/// A group.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its weight; `null` where it has none.
    pub weight: Option<u64>,
    /// Percent of the CPUs that it gets if all groups compete for them.
    pub share_percent: Option<f64>,
    /// Its threads.
    pub threads: u64,
    /// Processes with threads in it, as far as that is known.
    pub processes: Option<u64>,
    /// Its directory.
    pub path: Option<String>,
}

/// A time-critical thread.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Fast {
    /// Kernel thread id.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The name of its program.
    pub program: String,
    /// Its group, if its process's table has it.
    pub group: Option<String>,
}

/// Collects them. `Err`: /proc cannot be read.
pub fn report() -> io::Result<Report> {
    let wanted =
        Wanted { directories: tek_model::directories(), groups: true, ..Wanted::default() };
    let device = Device::examine(&wanted)?;
    Ok(match status::understood() {
        Ok(status) => of_daemon(status, &device),
        Err(error) => of_tables(&device, error.to_string()),
    })
}

fn of_daemon(status: Status, device: &Device) -> Report {
    let Status { groups, groups_why, backend, fast, .. } = status;
    let Some(groups) = groups else {
        let why = groups_why.unwrap_or_else(|| "this tekd knows no groups".into());
        return Report { backend, ..of_tables(device, format!("tekd makes no groups: {why}")) };
    };
    let sum: u64 = groups.groups.iter().map(|group| group.weight).sum();
    let counted = count(device);
    let mut rows: Vec<Row> = groups
        .groups
        .into_iter()
        .map(|group| Row {
            weight: Some(group.weight),
            share_percent: (sum > 0).then(|| group.weight as f64 * 100.0 / sum as f64),
            threads: group.threads,
            // The kernel does not always list them, and then they are counted one by one.
            processes: group.processes.or(counted.get(&group.name).map(|count| count.1)),
            path: Some(group.path),
            name: group.name,
        })
        .collect();
    tek_sort::by_key(&mut rows, |row| std::cmp::Reverse(row.weight));
    let mut all = fast_by_tables(device);
    for one in fast {
        if all.iter().all(|known| known.tid != one.tid) {
            let (name, program) = (one.name, one.program);
            all.push(Fast { tid: one.tid, pid: one.pid, name, program, group: None });
        }
    }
    Report {
        schema: 1,
        in_force: true,
        why_not: None,
        place: Some(groups.place),
        backend,
        floor_percent: Some(groups.floor_percent),
        left: groups.left,
        groups: rows,
        fast: all,
    }
}

fn of_tables(device: &Device, why: String) -> Report {
    let counted = count(device);
    let names = [Group::Urgent, Group::Normal, Group::Service, Group::Background];
    let row = |group: Group| {
        let (threads, processes) = counted.get(group.name()).copied().unwrap_or_default();
        Row { name: group.name().into(), threads, processes: Some(processes), ..Row::default() }
    };
    Report {
        schema: 1,
        why_not: Some(why),
        groups: names.map(row).into(),
        fast: fast_by_tables(device),
        ..Report::default()
    }
}

/// How many threads are in each group, and how many processes have them.
fn count(device: &Device) -> HashMap<String, (u64, u64)> {
    let mut counts = HashMap::<String, (u64, u64)>::new();
    for program in &device.programs {
        let mut own = HashMap::<u8, u64>::new();
        for group in program.tasks.iter().filter_map(tek_model::Task::group) {
            *own.entry(group).or_default() += 1;
        }
        for (group, threads) in own {
            let count = counts.entry(words::group(group)).or_default();
            count.0 += threads;
            count.1 += 1;
        }
    }
    counts
}

fn fast_by_tables(device: &Device) -> Vec<Fast> {
    let of = |program: &tek_model::Program| -> Vec<Fast> {
        let fast = program.tasks.iter().filter(|task| task.is_fast());
        fast.map(|task| Fast {
            tid: task.stat.tid,
            pid: program.pid,
            name: task.stat.name.clone(),
            program: program.name.clone(),
            group: task.group().map(words::group),
        })
        .collect()
    };
    device.programs.iter().flat_map(of).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::status::at_work;
    use serde_json::json;

    fn nobody() -> Device {
        Device { time_ns: 0, programs: Vec::new(), problems: Vec::new() }
    }

    /// As tekd reports it.
    pub fn by_daemon() -> Report {
        let mut answered = at_work();
        let group = |name: &str, weight: u32, threads: u32| {
            json!({"name": name, "weight": weight, "threads": threads, "processes": null,
                   "path": format!("/sys/fs/cgroup/tek/lazy/{name}")})
        };
        answered["backend"] = json!("fair");
        answered["groups"] = json!({
            "place": "cgroup version 2, /sys/fs/cgroup/tek", "top": "/sys/fs/cgroup/tek",
            "floor_percent": 5, "entered": true, "left": 1,
            "fast": {"path": "/sys/fs/cgroup/tek/fast", "threads": 2},
            "groups": [group("normal", 100, 40), group("urgent", 400, 3),
                       group("service", 50, 7), group("background", 10, 0)],
        });
        of_daemon(Status::deserialize_from(&answered).unwrap(), &nobody())
    }

    #[test]
    fn the_groups_of_tekd_come_by_weight_with_the_share_that_it_makes() {
        let report = by_daemon();
        assert!(report.in_force && report.why_not.is_none());
        let rows: Vec<_> = report
            .groups
            .iter()
            .map(|row| (row.name.as_str(), row.threads, row.share_percent.unwrap().round()))
            .collect();
        assert_eq!(
            rows,
            [
                ("urgent", 3, 71.0),
                ("normal", 40, 18.0),
                ("service", 7, 9.0),
                ("background", 0, 2.0)
            ]
        );
        assert_eq!(report.fast.iter().map(|one| one.tid).collect::<Vec<_>>(), [816, 817]);
    }

    #[test]
    fn a_tekd_without_groups_gives_the_reason_and_the_tables_are_shown() {
        let mut answered = at_work();
        answered["groups"] = json!(null);
        answered["groups_why"] = json!("tekd.toml has no [groups]");
        let report = of_daemon(Status::deserialize_from(&answered).unwrap(), &nobody());
        assert!(!report.in_force && report.groups.len() == 4);
        assert_eq!(
            report.why_not.as_deref(),
            Some("tekd makes no groups: tekd.toml has no [groups]")
        );
    }
}
