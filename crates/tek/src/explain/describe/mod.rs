// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts in plain sentences: a pure function.
mod critical;
mod scheduling;
#[cfg(test)]
mod tests;

use super::amounts::{time, times};
use super::daemon;
use super::facts::Facts;
use super::kthread;
use crate::system::library;
use critical::tek;
use scheduling::kernel;

/// A headline and its paragraphs.
pub type Section = (&'static str, Vec<String>);

/// The whole report.
pub fn describe(facts: &Facts) -> Vec<Section> {
    let mut sections = vec![
        ("Who it is", identity(facts)),
        ("What the kernel has for it", kernel(facts)),
        (
            "What TEK did",
            facts.tek.as_ref().map(|known| tek(known, &facts.kernel)).unwrap_or_default(),
        ),
        ("What tekd did", tekd(facts)),
        ("Who waits for it", waiters(facts)),
        ("Which threads of the kernel it waits for", kthread::describe_task(&facts.waits_for)),
        ("What it waited for", waits(facts)),
        ("What is not known", facts.not_known.clone()),
    ];
    sections.retain(|(_, paragraphs)| !paragraphs.is_empty());
    sections
}

fn identity(facts: &Facts) -> Vec<String> {
    let Facts { tid, pid, program, name, .. } = facts;
    let age = time(facts.age_ns);
    if let Some(what) = &facts.kernel_thread {
        return vec![format!("{name} [{tid}] is a thread of the kernel, {age} old: {what}.")];
    }
    let which = match tid == pid {
        true => format!("the first thread of {program}"),
        false => format!("a thread of {program} [{pid}]"),
    };
    let mut reported = vec![format!("{name} [{tid}] is {which}, {age} old.")];
    if facts.guard {
        reported.push(match name.as_str() {
            library::WATCH => "It is TEK's own: it looks at the stacks of this process.".into(),
            _ => "It is TEK's own guard of the budgets in this process.".into(),
        });
    }
    if let Some(described) = below_uthreads(facts) {
        reported.push(described);
    }
    if facts.named == Some(false) && tid != pid {
        reported.push(
            "It has no name of its own: this one is inherited, and no rule goes by it.".into(),
        );
    }
    let Some(tek) = &facts.tek else { return reported };
    if let Some(role) = &tek.role {
        reported.push(format!("Its role: {role}."));
    }
    if let Some(function) = &tek.function {
        reported.push(format!("It runs {function}."));
    }
    if let Some(creator) = tek.creator_tid {
        let name = tek.creator.as_deref().unwrap_or("a thread that has ended");
        let site = tek.call_site.as_ref().map(|site| format!(", at {site}")).unwrap_or_default();
        reported.push(format!("It was created by {name} [{creator}]{site}."));
    }
    if tek.adopted && tid != pid {
        reported.push(
            "It was not created through TEK: it was there before, or came by clone(2).".into(),
        );
    }
    reported
}

/// The purpose of a kernel thread in a program on user-level threads.
fn below_uthreads(facts: &Facts) -> Option<String> {
    let Facts { pid, .. } = facts;
    Some(match (facts.carries, facts.uthreads) {
        (_, None) => return None,
        (Some(worker), Some(count)) => format!(
            "It carries worker {worker} of its program's {count} user-level threads: \
             tek ps --pid {pid} --uthreads shows them."
        ),
        (None, Some(_)) => "Its program is on user-level threads, and it carries no worker now: a \
            spare one, or one that looks after the others."
            .into(),
    })
}

/// Without tekd the control group of a thread still shows its group.
fn tekd(facts: &Facts) -> Vec<String> {
    // tekd cannot move kernel threads, but they follow: a later section has that.
    if facts.follows.as_ref().is_some_and(|follows| follows.why_not.is_none()) {
        return Vec::new();
    }
    match (&facts.daemon, &facts.group) {
        (Some(known), _) => daemon::describe(known, facts.kernel_thread.is_some()),
        (None, Some(group)) => vec![format!("Its control group is that of the group {group}.")],
        (None, None) => Vec::new(),
    }
}

fn waiters(facts: &Facts) -> Vec<String> {
    let reported = facts.follows.as_ref().map(|known| kthread::describe(&facts.name, known));
    reported.unwrap_or_default()
}

fn waits(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    let mut reported = Vec::new();
    let share = 100.0 * kernel.cpu_ns as f64 / facts.age_ns.max(1) as f64;
    let mut ran = format!("In its life it ran for {}, {share:.1}% of a CPU", time(kernel.cpu_ns));
    match kernel.run_delay_ns {
        Some(delay) => {
            ran += &format!(", and was ready but had to wait for a CPU for {}.", time(delay));
            if delay > kernel.cpu_ns {
                ran += " It waits for a CPU longer than it runs.";
            }
        }
        None => ran += "; how long it waited for a CPU this kernel does not count.",
    }
    reported.push(ran);
    if let (Some(voluntary), Some(involuntary)) =
        (kernel.voluntary_switches, kernel.involuntary_switches)
    {
        let left = match voluntary {
            0 => "never left its CPU".into(),
            count => format!("left its CPU {}", times(count)),
        };
        let driven_out = times(involuntary);
        reported.push(format!(
            "It {left} to wait for something, and {driven_out} because another thread was to run."
        ));
    }
    reported
}
