// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of tekd (STATUS), as metrics.
use super::kthreads;
use super::lifts;
use super::page::{flag, Page};
use crate::status::kthreads::Reported as Kthreads;
use crate::status::lifts::Reported as Lifts;
use anyhow::Context;
use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;
use tek_abi::printable;

/// Users with a lower number are the system's own, as with Debian's and systemd's.
const FIRST_USER: u32 = 1000;
/// From here on too: the user `nobody`, and those of systemd that live as long as a service.
const FIRST_OF_THE_REST: u32 = 60_000;

/// Most groups that are reported. tekd has five.
const MOST_GROUPS: usize = 16;

/// The part of it that becomes metrics. Fields that an older tekd does not report are missing.
#[derive(Deserialize)]
pub struct Reported {
    version: String,
    #[serde(default)]
    backend: String,
    mode: String,
    fast: Vec<Fast>,
    clients: Vec<IgnoredAny>,
    counts: Counts,
    canary: Option<Canary>,
    groups: Option<Groups>,
    lowered: Option<Vec<IgnoredAny>>,
    kthreads: Option<Kthreads>,
    inherit: Option<Lifts>,
}

#[derive(Deserialize)]
struct Fast {
    uid: u32,
    since_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Counts {
    changes: u64,
    connections: u64,
    granted: u64,
    refused: u64,
    expelled: u64,
    responsive_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Canary {
    limit_ms: u64,
    demoted: u64,
}

#[derive(Deserialize)]
struct Groups {
    floor_percent: f64,
    entered: bool,
    fast: Members,
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Members {
    threads: u64,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    weight: u64,
    threads: u64,
    /// The kernel does not list them for a threaded group of version 2.
    processes: Option<u64>,
}

impl Reported {
    /// Takes it from JSON.
    pub fn of(answered: &Value) -> anyhow::Result<Self> {
        Self::deserialize(answered)
            .context("the answer of tekd is not understood: use tek and tekd of one version")
    }
}

/// Writes it; `None`: tekd does not run, or does not answer.
pub fn write(page: &mut Page, reported: Option<&Reported>) {
    let up = page.gauge("tek_tekd_up", "Whether the daemon tekd runs and answers.");
    up.is(flag(reported.is_some()));
    let Some(reported) = reported else { return };
    let mut info = page.gauge("tek_tekd_info", "Version of tekd, and how it gives CPU time first.");
    let [version, backend] =
        [&reported.version, &reported.backend].map(|text| printable(text.as_bytes()));
    info.with(&[("version", &version), ("backend", &backend)], 1.0);
    page.gauge("tek_responsiveness_mode", "Whether a thread is in the Fast Region by tekd.")
        .is(flag(reported.mode == "responsiveness"));
    page.counter(
        "tek_responsiveness_mode_seconds_total",
        "Time that the Fast Region was not empty.",
    )
    .may_be(reported.counts.responsive_ms.map(seconds));
    write_fast(page, reported);
    let requests = "Requests for time-critical threads that tekd granted.";
    page.counter("tek_tekd_grants_total", requests).is(reported.counts.granted as f64);
    page.counter("tek_tekd_refusals_total", "Requests that tekd refused.")
        .is(reported.counts.refused as f64);
    let expelled = "Threads that tekd sent out of the Fast Region because they were over budget.";
    page.counter("tek_tekd_expulsions_total", expelled).is(reported.counts.expelled as f64);
    if let Some(canary) = &reported.canary {
        let alarms =
            "Times that tekd sent all critical threads back because ordinary threads did not run.";
        page.counter("tek_tekd_canary_alarms_total", alarms).is(canary.demoted as f64);
        let limit = "Time for which ordinary threads may be kept from running.";
        page.gauge("tek_tekd_canary_limit_seconds", limit).is(seconds(canary.limit_ms));
    }
    let changes = "Changes that tekd has made and will undo.";
    page.gauge("tek_tekd_changes", changes).is(reported.counts.changes as f64);
    page.gauge("tek_tekd_connections", "Connections to tekd, that of this look included.")
        .is(reported.counts.connections as f64);
    page.gauge("tek_tekd_clients", "Processes that have a grant of tekd's.")
        .is(reported.clients.len() as f64);
    let lowered = "Real-time threads that are not time-critical and wait beneath the Fast Region.";
    page.gauge("tek_lowered_threads", lowered)
        .may_be(reported.lowered.as_ref().map(|lowered| lowered.len() as f64));
    write_groups(page, reported.groups.as_ref());
    if let Some(reported) = &reported.kthreads {
        kthreads::write(page, reported);
    }
    if let Some(reported) = &reported.inherit {
        lifts::write(page, reported);
    }
}

/// By class of user, because the number of users depends on the device.
fn write_fast(page: &mut Page, reported: &Reported) {
    let mut threads =
        page.gauge("tek_fast_threads", "Threads in the Fast Region by tekd, by class of user.");
    for class in ["root", "system", "user"] {
        let count = reported.fast.iter().filter(|fast| class_of(fast.uid) == class).count();
        threads.with(&[("user_class", class)], count as f64);
    }
    let longest = reported.fast.iter().filter_map(|fast| fast.since_ms).max();
    let stay = "Time that the thread that is longest in the Fast Region by tekd has been there.";
    page.gauge("tek_fast_longest_stay_seconds", stay).is(seconds(longest.unwrap_or(0)));
}

fn write_groups(page: &mut Page, groups: Option<&Groups>) {
    let in_force = "Whether tekd has threads in control groups.";
    page.gauge("tek_groups_in_force", in_force).is(flag(groups.is_some()));
    let Some(groups) = groups else { return };
    page.gauge("tek_groups_entered", "Whether the weights of responsiveness mode are in force.")
        .is(flag(groups.entered));
    let floor = "Share of CPU time that the Lazy Region keeps in responsiveness mode.";
    page.gauge("tek_floor_ratio", floor).is(groups.floor_percent / 100.0);
    let lazy: Vec<(String, &Group)> = groups
        .groups
        .iter()
        .take(MOST_GROUPS)
        .map(|group| (printable(group.name.as_bytes()), group))
        .collect();
    let mut threads = page.gauge("tek_group_threads", "Threads in a control group of tekd's.");
    threads.with(&[("group", "fast")], groups.fast.threads as f64);
    for (name, group) in &lazy {
        threads.with(&[("group", name)], group.threads as f64);
    }
    let mut processes =
        page.gauge("tek_group_processes", "Processes in a control group of tekd's.");
    for (name, group) in &lazy {
        if let Some(count) = group.processes {
            processes.with(&[("group", name)], count as f64);
        }
    }
    let mut weights = page.gauge("tek_group_weight", "Weight of a control group of tekd's.");
    for (name, group) in &lazy {
        weights.with(&[("group", name)], group.weight as f64);
    }
}

fn class_of(uid: u32) -> &'static str {
    match uid {
        0 => "root",
        FIRST_USER..FIRST_OF_THE_REST => "user",
        _ => "system",
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::at_work;
    use serde_json::json;

    fn page(answered: &Value) -> Vec<String> {
        let mut page = Page::default();
        write(&mut page, Some(&Reported::of(answered).unwrap()));
        page.into_text().lines().filter(|line| !line.starts_with('#')).map(String::from).collect()
    }

    fn answered() -> Value {
        let mut answered = at_work();
        answered["counts"] = json!({"changes": 3, "connections": 4, "granted": 50, "refused": 6,
                                "expelled": 7});
        answered
    }

    fn has(lines: &[String], wanted: &[&str]) {
        for wanted in wanted {
            assert!(lines.iter().any(|line| line == wanted), "no {wanted} in {lines:#?}");
        }
    }

    #[test]
    fn without_tekd_only_that_is_reported() {
        let mut page = Page::default();
        write(&mut page, None);
        assert_eq!(page.into_text().lines().last(), Some("tek_tekd_up 0"));
    }

    #[test]
    fn what_tekd_reports_becomes_metrics_and_what_it_does_not_report_does_not() {
        let mut answered = answered();
        for untold in ["backend", "lowered"] {
            answered.as_object_mut().unwrap().remove(untold);
        }
        let lines = page(&answered);
        has(
            &lines,
            &[
                "tek_tekd_up 1",
                "tek_tekd_info{version=\"0.1.0\",backend=\"\"} 1",
                "tek_responsiveness_mode 1",
                "tek_fast_threads{user_class=\"root\"} 2",
                "tek_fast_threads{user_class=\"user\"} 0",
                "tek_fast_longest_stay_seconds 65",
                "tek_tekd_grants_total 50",
                "tek_tekd_refusals_total 6",
                "tek_tekd_expulsions_total 7",
                "tek_tekd_canary_alarms_total 0",
                "tek_tekd_changes 3",
                "tek_tekd_connections 4",
                "tek_tekd_clients 2",
                "tek_groups_in_force 0",
            ],
        );
        let unknown = ["tek_lowered_threads", "tek_responsiveness_mode_seconds_total", "tek_floor"];
        assert!(!lines.iter().any(|line| unknown.iter().any(|name| line.starts_with(name))));
    }

    #[test]
    fn groups_floor_and_lowered_threads_are_reported_where_there_are_any() {
        let mut answered = answered();
        answered["backend"] = json!("fair");
        answered["counts"]["responsive_ms"] = json!(1500);
        answered["lowered"] = json!([{"tid": 5}]);
        answered["groups"] = json!({
            "place": "x", "top": "/t", "floor_percent": 5, "entered": true, "left": 0,
            "fast": {"path": "/t/fast", "threads": 2},
            "groups": [{"name": "normal", "weight": 100, "path": "/t/n", "threads": 9,
                        "processes": 3},
                       {"name": "service", "weight": 50, "path": "/t/s", "threads": 1,
                        "processes": null}],
        });
        has(
            &page(&answered),
            &[
                "tek_tekd_info{version=\"0.1.0\",backend=\"fair\"} 1",
                "tek_responsiveness_mode_seconds_total 1.5",
                "tek_lowered_threads 1",
                "tek_groups_in_force 1",
                "tek_groups_entered 1",
                "tek_floor_ratio 0.05",
                "tek_group_threads{group=\"fast\"} 2",
                "tek_group_threads{group=\"normal\"} 9",
                "tek_group_processes{group=\"normal\"} 3",
                "tek_group_weight{group=\"normal\"} 100",
            ],
        );
    }

    #[test]
    fn users_are_reported_by_class() {
        let classes = [0, 1, 999, 1000, 59_999, 60_000, 65_534, u32::MAX].map(class_of);
        let wanted = ["root", "system", "system", "user", "user", "system", "system", "system"];
        assert_eq!(classes, wanted);
    }

    #[test]
    fn an_answer_that_is_not_understood_is_an_error() {
        let error = Reported::of(&json!({"version": 3})).err().unwrap().to_string();
        assert!(error.contains("tek and tekd of one version"), "{error}");
    }
}
