// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of `tek explain` for a thread, to be read over the table.
use super::state::Text;
use crate::explain;
use crate::ps::thread::Thread;
use std::io;
use tek_abi::printable;
use tek_model::Process;

/// The details of a thread. If it has ended, or another thread has its tid by now, the text shows
/// that.
pub fn of(thread: &Thread) -> Text {
    let stat = &thread.task.stat;
    match thread.user {
        Some(user) => of_user(thread.pid, user.number),
        None => of_kernel(thread.pid, (stat.tid, stat.start_ns)),
    }
}

fn of_user(pid: u32, number: u32) -> Text {
    let paragraphs = match explain::sections_of_user(pid, number) {
        Ok(sections) => paragraphs(sections),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            vec![format!("user-level thread {number} of process {pid} has ended")]
        }
        Err(error) => vec![format!("cannot find out about user-level thread {number}: {error}")],
    };
    Text { title: format!("User-level thread {number} of {pid}"), paragraphs, first: 0 }
}

/// By its tid and start time.
fn of_kernel(pid: u32, (tid, start_ns): (u32, u64)) -> Text {
    let is_there = || {
        let stat = Process::open(pid).ok().and_then(|process| process.stat(tid));
        stat.is_some_and(|stat| stat.start_ns == start_ns)
    };
    // Checked before and after, so that the data in between belongs to this thread.
    let reported = is_there().then(|| explain::sections(tid)).filter(|_| is_there());
    let paragraphs = match reported {
        Some(Ok(sections)) => paragraphs(sections),
        Some(Err(error)) => vec![format!("cannot find out about thread {tid}: {error}")],
        None => vec![format!("thread {tid} has ended")],
    };
    Text { title: format!("Thread {tid}"), paragraphs, first: 0 }
}

fn paragraphs(sections: Vec<(&'static str, Vec<String>)>) -> Vec<String> {
    let mut paragraphs = Vec::new();
    for (title, reported) in sections {
        if !paragraphs.is_empty() {
            paragraphs.push(String::new());
        }
        paragraphs.push(title.to_owned());
        // Programs may choose any name.
        paragraphs.extend(reported.iter().map(|text| format!("  {}", printable(text.as_bytes()))));
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (u32, (u32, u64)) {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let pid = std::process::id();
        let stat = Process::open(pid).unwrap().stat(tid).unwrap();
        (pid, (tid, stat.start_ns))
    }

    #[test]
    fn a_thread_is_explained_as_tek_explain_does() {
        let (pid, identity) = own();
        let text = of_kernel(pid, identity);
        assert_eq!(text.paragraphs[0], "Who it is");
        assert!(text.paragraphs.iter().any(|line| line.starts_with("  ")), "{text:?}");
    }

    #[test]
    fn another_thread_with_the_same_tid_is_not_taken_for_it() {
        let (pid, (tid, start_ns)) = own();
        let other = of_kernel(pid, (tid, start_ns + 1));
        assert_eq!(other.paragraphs, [format!("thread {tid} has ended")]);
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        let reported = paragraphs(vec![("Who", vec!["\x1b[2J".into()]), ("What", vec![])]);
        assert_eq!(reported, ["Who", "  \\u{1b}[2J", "", "What"]);
    }
}
