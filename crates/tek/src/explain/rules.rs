// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules that hold for a thread, found by following them as the library does.
use super::facts::{Facts, RuleFact};
use crate::run::options::Critical;
use std::io;
use std::time::Duration;
use tek_abi::{printable, until_nul};
use tek_model::Task;
use tek_policy::{decide, from_environment, to_toml, Decision, Priority, Rule};

/// The longest wait for a process that may be stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// Adds the rules for a thread and its budget; `symbol` is that of its function. `Err` names what
/// remains unknown, and why.
pub fn add(facts: &mut Facts, task: &Task, symbol: Option<&str>) -> Result<(), String> {
    let (Some(tek), Some(own)) = (&mut facts.tek, task.record) else { return Ok(()) };
    let variable = |name| {
        tek_model::environment(facts.pid, name, PATIENCE).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::TimedOut => "its process is stuck in the kernel".into(),
                _ => error.to_string(),
            };
            format!("its rules and its budget: its process's environment cannot be read: {why}")
        })
    };
    let text = variable("TEK_RULES")?.unwrap_or_default();
    let budget = variable("TEK_BUDGET")?;
    let by_name = tek.reasons.contains(&"rule") && own.side.rule == 0;
    if let Some(critical) = by_name.then(|| variable("TEK_CRITICAL")).transpose()?.flatten() {
        tek.critical_pattern = pattern(&critical, until_nul(&own.side.name));
    }
    let reported = |error| printable(format!("its rules: {error}").as_bytes());
    let rules = from_environment(&text).map_err(reported)?;
    let thread = tek_policy::Facts {
        program: facts.program.as_bytes(),
        thread: (facts.named == Some(true)).then(|| until_nul(&own.side.name)),
        role: None,
        function: symbol.map(str::as_bytes),
    };
    let mut decision = decide(&rules, &thread);
    if decision.role.is_none() {
        // Then its role is the program's own, and rules may match by it.
        let role = (own.record.role_bytes != 0).then(|| until_nul(&own.side.role));
        decision = decide(&rules, &tek_policy::Facts { role, ..thread });
    }
    // For the rule that made it Fast the library's record counts: the library decided then.
    let by_rule = tek.reasons.contains(&"rule") && own.side.rule != 0;
    let fast_by = by_rule.then_some(usize::from(own.side.rule));
    tek.rules = behind(&rules, &decision, fast_by);
    tek.budget = decision.budget.map(|given| given.value.to_string()).or(budget);
    Ok(())
}

/// Whether a process was started with libtek.so in its LD_PRELOAD, as far as that can be read.
pub fn is_preloaded(pid: u32) -> bool {
    let list = tek_model::environment(pid, "LD_PRELOAD", PATIENCE).ok().flatten();
    let is_library =
        |file: &str| file.rsplit('/').next().is_some_and(|n| n.starts_with("libtek.so"));
    list.is_some_and(|list| list.split([':', ' ']).any(is_library))
}

/// The entry of TEK_CRITICAL that makes a name time-critical: of the matching entries the one with
/// the best priority, the first of equals.
fn pattern(critical: &str, name: &[u8]) -> Option<String> {
    let entries = critical.split(',').filter_map(|entry| entry.parse::<Critical>().ok());
    let fitting = entries.filter(|entry| entry.glob.matches(name));
    let best = fitting.min_by_key(|entry| entry.nice.map_or(0, Priority::nice))?;
    Some(best.to_string())
}

/// The rules that decided a setting, with these settings.
fn behind(rules: &[Rule], decision: &Decision<'_>, fast_by: Option<usize>) -> Vec<RuleFact> {
    let decided = [
        ("role", decision.role.map(|given| given.rule)),
        ("group", decision.group.map(|given| given.rule)),
        ("critical", fast_by.or(decision.critical.map(|given| given.rule))),
        ("mark", decision.mark.map(|given| given.rule)),
        ("priority", decision.priority.map(|given| given.rule)),
        ("budget", decision.budget.map(|given| given.rule)),
    ];
    let fact = |(rule, number): (&Rule, usize)| {
        let own = decided.iter().filter(|(_, rule)| *rule == Some(number));
        let sets: Vec<_> = own.map(|(what, _)| *what).collect();
        let text = to_toml(std::slice::from_ref(rule));
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("[[")).collect();
        // The user that started the program wrote them, and they are printed on a terminal.
        let shown = |text: &str| printable(text.as_bytes());
        let (source, text) = (shown(&rule.source), shown(&lines.join(", ")));
        (!sets.is_empty()).then_some(RuleFact { number, source, text, sets })
    };
    rules.iter().zip(1..).filter_map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_with_the_best_priority_counts() {
        let found = |name: &str| pattern("ui,mc-*,mc-lru*=-5,m*", name.as_bytes());
        assert_eq!(found("mc-lru-crawl").as_deref(), Some("mc-lru*=-5"));
        assert_eq!(found("mc-idle").as_deref(), Some("mc-*"));
        assert_eq!(found("gas"), None);
    }

    #[test]
    fn each_rule_has_what_it_decided_and_the_library_knows_which_made_the_thread_fast() {
        let text = "thread=ui*,role=screen,critical=1,source=a.toml:1;\
                    role-is=screen,group=urgent,critical=1;thread=gas,mark=1";
        let rules = from_environment(text).unwrap();
        let thread = tek_policy::Facts { thread: Some(b"ui1"), ..Default::default() };
        let sets = |fast_by| {
            let facts = behind(&rules, &decide(&rules, &thread), fast_by);
            facts.into_iter().map(|fact| (fact.number, fact.sets)).collect::<Vec<_>>()
        };
        assert_eq!(sets(None), [(1, vec!["role"]), (2, vec!["group", "critical"])]);
        assert_eq!(sets(Some(1)), [(1, vec!["role", "critical"]), (2, vec!["group"])]);
        let first = &behind(&rules, &decide(&rules, &thread), None)[0];
        assert_eq!(first.source, "a.toml:1");
        assert!(first.text.starts_with("match = { thread = \"ui*\" }, set = "), "{first:?}");
    }
}
