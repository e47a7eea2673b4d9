// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process or thread that the user names.
use std::io;
use tek_abi::{printable, TimeOffsets};
use tek_model::{Detail, Device, Program, Stat, Wanted};

/// Most processes that are listed if a name is ambiguous.
const MOST_LISTED: usize = 10;

/// A process or a thread, distinct from any later one with its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub tid: u32,
    /// Field 22 of its stat, as in the initial time namespace.
    pub start_ticks: u64,
    /// The name means all its threads.
    pub is_process: bool,
    /// Its name in messages.
    pub shown: String,
    /// Its name on the command line.
    pub again: String,
}

/// Finds it. The inner error is a message for the user; the outer one: /proc cannot be read.
pub fn target(process: Option<&str>, thread: Option<u32>) -> io::Result<Result<Target, String>> {
    let pid_of_thread = match thread.map(Detail::of) {
        None => None,
        Some(Ok(detail)) => Some(detail.pid),
        Some(Err(_)) => {
            return Ok(Err(format!(
                "there is no thread {}: it may have ended; tek ps shows those there are",
                thread.unwrap_or_default()
            )))
        }
    };
    let pids = match (pid_of_thread, process.and_then(|text| text.parse().ok())) {
        (Some(pid), _) | (None, Some(pid)) => vec![pid],
        (None, None) => Vec::new(),
    };
    let wanted = Wanted { pids, directories: tek_model::directories(), ..Wanted::default() };
    let device = Device::examine(&wanted)?;
    Ok(choose(&device.programs, process, thread))
}

fn choose(
    programs: &[Program],
    process: Option<&str>,
    thread: Option<u32>,
) -> Result<Target, String> {
    let fits = |program: &&Program| process.is_none_or(|text| is_called(program, text));
    let fitting: Vec<&Program> = programs.iter().filter(fits).collect();
    if let Some(tid) = thread {
        let found = fitting.iter().find_map(|program| {
            let task = program.tasks.iter().find(|task| task.stat.tid == tid)?;
            Some(thread_target(program, &task.stat))
        });
        return found.ok_or_else(|| format!("the thread {tid} is not of {}", asked(process)));
    }
    match fitting.as_slice() {
        [] => Err(format!("there is no process {}: tek ps shows those there are", asked(process))),
        [program] => process_target(program),
        _ => Err(several(&fitting, &asked(process))),
    }
}

fn asked(process: Option<&str>) -> String {
    printable(process.unwrap_or_default().as_bytes())
}

/// Its first thread. Its name is the process's name for the kernel.
fn leader(program: &Program) -> Option<&Stat> {
    program.tasks.iter().map(|task| &task.stat).find(|stat| stat.tid == program.pid)
}

fn is_called(program: &Program, text: &str) -> bool {
    match text.parse::<u32>() {
        Ok(pid) => program.pid == pid,
        // tekd does not switch kernel threads.
        Err(_) => leader(program)
            .is_some_and(|leader| !leader.kernel && (program.name == text || leader.name == text)),
    }
}

fn shown(program: &Program) -> String {
    format!("{} [{}]", printable(program.name.as_bytes()), program.pid)
}

fn process_target(program: &Program) -> Result<Target, String> {
    let leader = leader(program).ok_or_else(|| format!("{} has just ended", shown(program)))?;
    Ok(Target {
        tid: program.pid,
        start_ticks: ticks(leader.start_ns),
        is_process: true,
        shown: shown(program),
        again: program.pid.to_string(),
    })
}

fn thread_target(program: &Program, stat: &Stat) -> Target {
    Target {
        tid: stat.tid,
        start_ticks: ticks(stat.start_ns),
        is_process: false,
        shown: format!("{} [{}] of {}", printable(stat.name.as_bytes()), stat.tid, shown(program)),
        again: format!("--thread {}", stat.tid),
    }
}

/// From this process's clock to clock ticks of the initial time namespace.
fn ticks(start_ns: u64) -> u64 {
    let second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    let tick_ns = 1_000_000_000 / second.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(100);
    let offset = TimeOffsets::own().unwrap_or_default().boottime_ns;
    start_ns.saturating_add_signed(offset.saturating_neg()) / tick_ns.max(1)
}

fn several(programs: &[&Program], name: &str) -> String {
    let list: Vec<_> = programs.iter().take(MOST_LISTED).map(|program| shown(program)).collect();
    let more = match programs.len() - list.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "there are {} processes {name}; say which by its id: {}{more}",
        programs.len(),
        list.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tek_model::Task;

    fn stat(tid: u32, name: &str, kernel: bool) -> Stat {
        Stat {
            tid,
            name: name.into(),
            parent: 1,
            state: 'S',
            start_ns: u64::from(tid) * 1_000_000_000,
            policy: 0,
            nice: 0,
            rt_priority: 0,
            cpu_ns: 0,
            kernel,
        }
    }

    fn program(pid: u32, name: &str, threads: &[(u32, &str)], kernel: bool) -> Program {
        let task = |&(tid, name): &(u32, &str)| Task {
            stat: stat(tid, name, kernel),
            record: None,
            schedstat: None,
            switches: None,
            storage_bytes: None,
            wait: None,
            stack: None,
            seat: None,
        };
        Program {
            pid,
            name: name.into(),
            tasks: threads.iter().map(task).collect(),
            vm_bytes: None,
            page_bytes: 0,
            modules: Vec::new(),
            table: None,
            kinds: Vec::new(),
            held_up: Vec::new(),
            uthreads: Vec::new(),
            workers: Vec::new(),
        }
    }

    fn device() -> Vec<Program> {
        vec![
            program(2, "kthreadd", &[(2, "kthreadd")], true),
            program(815, "fridge-controller", &[(815, "fridge-controll"), (816, "gas")], false),
            program(900, "sh", &[(900, "sh")], false),
            program(901, "sh", &[(901, "sh")], false),
        ]
    }

    fn find(process: Option<&str>, thread: Option<u32>) -> Result<Target, String> {
        choose(&device(), process, thread)
    }

    #[test]
    fn a_process_is_found_by_its_id_and_by_either_of_its_names() {
        let found = find(Some("815"), None).unwrap();
        assert_eq!((found.tid, found.is_process), (815, true));
        assert_eq!(found.start_ticks % 815, 0);
        assert_eq!(found.shown, "fridge-controller [815]");
        assert_eq!(find(Some("fridge-controller"), None), Ok(found.clone()));
        assert_eq!(find(Some("fridge-controll"), None), Ok(found));
    }

    #[test]
    fn a_thread_is_found_in_its_process_and_in_no_other() {
        let found = find(None, Some(816)).unwrap();
        assert_eq!((found.tid, found.is_process), (816, false));
        assert_eq!(found.shown, "gas [816] of fridge-controller [815]");
        assert_eq!(found.again, "--thread 816");
        assert_eq!(find(Some("815"), Some(816)), Ok(found));
        assert_eq!(find(Some("900"), Some(816)), Err("the thread 816 is not of 900".into()));
    }

    #[test]
    fn a_name_that_several_have_lists_them() {
        let reported = find(Some("sh"), None).unwrap_err();
        assert_eq!(reported, "there are 2 processes sh; say which by its id: sh [900], sh [901]");
    }

    #[test]
    fn a_name_that_no_process_has_and_one_of_the_kernels_are_not_found() {
        for name in ["fridg", "kthreadd", "gas", "4711", "\u{1b}[2J"] {
            let reported = find(Some(name), None).unwrap_err();
            assert!(reported.starts_with("there is no process "), "{reported}");
            assert!(!reported.contains('\u{1b}'));
        }
    }

    #[test]
    fn the_start_of_this_process_is_that_of_its_stat() {
        let found = target(Some(&std::process::id().to_string()), None).unwrap().unwrap();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<_> = stat[stat.rfind(')').unwrap()..].split_whitespace().collect();
        assert_eq!(fields[20], found.start_ticks.to_string());
    }
}
