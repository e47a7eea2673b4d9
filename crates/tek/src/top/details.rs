// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tek explain` says of a thread, to be read over the table.
use super::state::{Identity, Text};
use crate::explain;
use tek_abi::printable;
use tek_model::Process;

/// Finds out about a thread of a process. Of one that ended, or whose tid another has by now, it
/// says so.
pub fn of(pid: u32, (tid, start_ns): Identity) -> Text {
    let is_there = || {
        let stat = Process::open(pid).ok().and_then(|process| process.stat(tid));
        stat.is_some_and(|stat| stat.start_ns == start_ns)
    };
    // The same before and after, so that what was read in between is of this thread.
    let told = is_there().then(|| explain::sections(tid)).filter(|_| is_there());
    let paragraphs = match told {
        Some(Ok(sections)) => paragraphs(sections),
        Some(Err(error)) => vec![format!("cannot find out about thread {tid}: {error}")],
        None => vec![format!("thread {tid} has ended")],
    };
    Text { title: format!("Thread {tid}"), paragraphs, first: 0 }
}

fn paragraphs(sections: Vec<(&'static str, Vec<String>)>) -> Vec<String> {
    let mut paragraphs = Vec::new();
    for (title, told) in sections {
        if !paragraphs.is_empty() {
            paragraphs.push(String::new());
        }
        paragraphs.push(title.to_owned());
        // Names in it are whatever the program chose.
        paragraphs.extend(told.iter().map(|text| format!("  {}", printable(text.as_bytes()))));
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (u32, Identity) {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let pid = std::process::id();
        let stat = Process::open(pid).unwrap().stat(tid).unwrap();
        (pid, (tid, stat.start_ns))
    }

    #[test]
    fn a_thread_is_explained_as_tek_explain_does() {
        let (pid, identity) = own();
        let text = of(pid, identity);
        assert_eq!(text.paragraphs[0], "Who it is");
        assert!(text.paragraphs.iter().any(|line| line.starts_with("  ")), "{text:?}");
    }

    #[test]
    fn another_thread_with_the_same_tid_is_not_taken_for_it() {
        let (pid, (tid, start_ns)) = own();
        assert_eq!(of(pid, (tid, start_ns + 1)).paragraphs, [format!("thread {tid} has ended")]);
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let told = paragraphs(vec![("Who", vec!["\x1b[2J".into()]), ("What", vec![])]);
        assert_eq!(told, ["Who", "  \\u{1b}[2J", "", "What"]);
    }
}
