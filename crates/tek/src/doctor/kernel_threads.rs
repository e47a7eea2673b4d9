// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether kernel threads can follow the priorities of their waiters.
use super::check::Answer;
use super::check::{info, no, root_or, yes, Check};
use tek_bpf::{Dependency, Error, Probe, State};

const ID: &str = "kernel-threads";

/// Checks this kernel and the rights of this process.
pub fn kernel_threads() -> Check {
    judge(&tek_bpf::probe())
}

fn judge(probe: &Probe) -> Check {
    let lacking = lacking(&probe.dependencies);
    match &probe.obstacle {
        None => without_obstacle(&probe.dependencies, &lacking),
        Some(Error::NotBuilt) => {
            info(ID, "do not follow tasks that wait: that needs a 64-bit processor")
        }
        Some(Error::NoBtf { .. }) => no(
            ID,
            "cannot follow tasks that wait: no type information (see bpf)",
            "build the kernel with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF",
        ),
        Some(Error::NotPermitted { missing }) => {
            let found =
                format!("cannot follow tasks that wait: {missing} is missing{}", after(&lacking));
            no(ID, found, root_or(&["bpf", "perfmon"]))
        }
        Some(Error::Lockdown) => no(
            ID,
            "cannot follow tasks that wait: kernel lockdown is in the mode `confidentiality`",
            "add lockdown=integrity to the kernel's command line and boot",
        ),
        Some(other) => Check { answer: Answer::Unknown, ..yes(ID, other.to_string()) },
    }
}

fn without_obstacle(dependencies: &[Dependency], lacking: &[String]) -> Check {
    if dependencies.iter().any(Dependency::is_on) {
        return yes(
            ID,
            format!("can follow tasks that wait, by tekd with [kthreads]{}", after(lacking)),
        );
    }
    no(
        ID,
        format!("cannot follow tasks that wait{}", after(lacking)),
        "use Linux 6.1 or later built with CONFIG_FTRACE and CONFIG_BPF_EVENTS",
    )
}

fn after(lacking: &[String]) -> String {
    lacking.iter().map(|one| format!("; {one}")).collect()
}

/// The features that this kernel lacks, and the consequences.
fn lacking(dependencies: &[Dependency]) -> Vec<String> {
    let one = |dependency: &Dependency| match &dependency.state {
        State::Off(why) => Some(format!("not {}: {why}", dependency.kind)),
        State::On { but } if but.is_empty() => None,
        State::On { but } => Some(format!("{}: {}", dependency.kind, but.join("; "))),
    };
    dependencies.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_bpf::Kind;

    fn probe(obstacle: Option<Error>, states: [State; 2]) -> Probe {
        let [workers, reclaim] = states;
        Probe {
            obstacle,
            dependencies: vec![
                Dependency { kind: Kind::Workers, state: workers },
                Dependency { kind: Kind::Reclaim, state: reclaim },
            ],
        }
    }

    fn whole() -> State {
        State::On { but: Vec::new() }
    }

    fn off() -> State {
        State::Off("this kernel has not x".into())
    }

    #[test]
    fn what_one_kind_lacks_is_named_and_the_rest_can_be_used() {
        let check = judge(&probe(None, [whole(), whole()]));
        assert_eq!(check.found, "can follow tasks that wait, by tekd with [kthreads]");
        let check = judge(&probe(None, [State::On { but: vec!["a: b".into()] }, off()]));
        assert_eq!(check.answer, Answer::Yes);
        assert!(check.found.ends_with("; workers: a: b; not reclaim: this kernel has not x"));
        assert_eq!(judge(&probe(None, [off(), off()])).answer, Answer::No);
    }

    #[test]
    fn every_obstacle_that_is_a_no_has_a_cure() {
        let source = std::io::Error::from_raw_os_error(libc::ENOENT);
        let missing = "CAP_BPF and CAP_PERFMON".to_owned();
        let obstacles = [
            (Error::NotBuilt, Answer::Info),
            (Error::NoBtf { source }, Answer::No),
            (Error::BadBtf("x"), Answer::Unknown),
            (Error::NotPermitted { missing }, Answer::No),
            (Error::Lockdown, Answer::No),
        ];
        for (obstacle, answer) in obstacles {
            let check = judge(&probe(Some(obstacle), [whole(), off()]));
            assert_eq!(check.answer, answer, "{}", check.found);
            assert_eq!(check.cure.is_some(), answer == Answer::No, "{}", check.found);
        }
    }
}
