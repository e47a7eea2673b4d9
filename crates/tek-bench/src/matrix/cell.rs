// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of the matrix: what a critical thread waits for, and how it is scheduled.

use super::stage::Stage;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the thread waits for while it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Row {
    /// Nothing but a CPU
    Hogs,
    /// A mutex that a background thread holds again and again
    Mutex,
    /// The first of three mutexes, whose holders wait for each other
    Chain,
    /// A read-write lock that two background threads read
    Rwlock,
    /// A condition variable, whose signalling thread still holds the mutex
    Condvar,
    /// The end of a thread
    Join,
    /// A mutex that does not name its owner, as those of Rust, Go and musl
    WordMutex,
    /// A mutex that another process holds
    SharedMutex,
    /// The reply of a background thread by a pipe
    Pipe,
    /// The reply of a background thread by a UNIX socket
    Socket,
    /// 800 KB on a disk
    Fsync,
    /// Nothing but a CPU, beside ten times as many hogs
    ManyHogs,
    /// Nothing but a CPU, in a process with 2,000 sleeping threads
    Threads,
    /// A mutex, a read-write lock, a pipe and 800 KB on a disk, beside 2,000 sleeping threads
    All,
}

/// How the thread and those that it waits for are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Column {
    /// Without hogs: the limit
    Alone,
    /// The same once more: how much two equal measurements differ
    AloneAgain,
    /// With hogs, as the kernel schedules by itself
    Conventional,
    /// The thread at nice -20
    Nice,
    /// The thread at SCHED_RR
    Chrt,
    /// The same, and mutexes with PTHREAD_PRIO_INHERIT: needs a change of the program
    PiMutex,
    /// Unmodified, under `tek run --critical touch`
    Tek,
    /// The same with --no-inherit
    TekNoInherit,
    /// The same for a user without rights, by a grant of tekd, which follows waits in all programs
    Tekd,
}

/// A row in a column.
pub type Cell = (Row, Column);

/// The name of the critical thread.
pub const CRITICAL: &str = "touch";

/// The hogs of the row many-hogs, by those of all other rows.
const MANY: usize = 10;

/// The programs that cells start.
pub struct Programs {
    pub tek: PathBuf,
    pub dependencies: PathBuf,
    /// Of the column tekd, or why there is none.
    pub stage: Result<Stage, String>,
}

impl Row {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Row::Hogs => "hogs",
            Row::Mutex => "mutex",
            Row::Chain => "chain",
            Row::Rwlock => "rwlock",
            Row::Condvar => "condvar",
            Row::Join => "join",
            Row::WordMutex => "word-mutex",
            Row::SharedMutex => "shared-mutex",
            Row::Pipe => "pipe",
            Row::Socket => "socket",
            Row::Fsync => "fsync",
            Row::ManyHogs => "many-hogs",
            Row::Threads => "threads",
            Row::All => "all",
        }
    }

    /// What the thread waits for, for a title.
    pub fn waits_for(self) -> String {
        let help = self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string()));
        let help = help.unwrap_or_default();
        let mut letters = help.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
    }

    /// The dependency that the program has to make.
    fn dependency(self) -> &'static str {
        match self {
            Row::Hogs | Row::ManyHogs => "none",
            _ => self.name(),
        }
    }

    /// Whether other threads than hogs do the background work.
    pub fn has_background(self) -> bool {
        !matches!(self, Row::Hogs | Row::Fsync | Row::ManyHogs | Row::Threads)
    }

    fn has_mutex(self) -> bool {
        matches!(self, Row::Mutex | Row::Chain | Row::Condvar | Row::SharedMutex | Row::All)
    }
}

impl Column {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Column::Alone => "alone",
            Column::AloneAgain => "alone-again",
            Column::Conventional => "conventional",
            Column::Nice => "nice",
            Column::Chrt => "chrt",
            Column::PiMutex => "pi-mutex",
            Column::Tek => "tek",
            Column::TekNoInherit => "tek-no-inherit",
            Column::Tekd => "tekd",
        }
    }

    /// Whether hogs run.
    pub fn has_hogs(self) -> bool {
        !matches!(self, Column::Alone | Column::AloneAgain)
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Column::Nice => &["--nice"],
            Column::Chrt => &["--real-time"],
            Column::PiMutex => &["--real-time", "--inherit"],
            _ => &[],
        }
    }
}

/// The name of a cell in the JSON document.
pub fn name((row, column): Cell) -> String {
    format!("{}/{}", row.name(), column.name())
}

/// Why the matrix has no such cell.
pub fn why_empty((row, column): Cell, programs: &Programs) -> Option<&str> {
    match column {
        Column::PiMutex => (!row.has_mutex()).then_some("the row has no mutex"),
        Column::Tekd => programs.stage.as_ref().err().map(String::as_str),
        _ => None,
    }
}

/// The command that measures a cell, which is not empty. Its options that all cells share are to be
/// added.
pub fn command((row, column): Cell, programs: &Programs, hogs: usize) -> Command {
    let mut command = match (column, &programs.stage) {
        (Column::Tekd, Ok(stage)) => stage.command(CRITICAL),
        _ => started(column, &programs.tek, &programs.dependencies),
    };
    let hogs = match (column.has_hogs(), row) {
        (false, _) => 0,
        (true, Row::ManyHogs) => MANY * hogs,
        (true, _) => hogs,
    };
    command.args(["--row", row.dependency(), "--hogs", &hogs.to_string()]);
    command.args(column.options());
    command
}

fn started(column: Column, tek: &Path, program: &Path) -> Command {
    let options: &[&str] = match column {
        Column::Tek => &[],
        Column::TekNoInherit => &["--no-inherit"],
        _ => return Command::new(program),
    };
    let mut command = Command::new(tek);
    command.arg("run").args(options).args(["--critical", CRITICAL, "--"]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        let stage = Err("needs root".to_owned());
        Programs { tek: "tek".into(), dependencies: "program".into(), stage }
    }

    fn words(cell: Cell) -> String {
        let programs = programs();
        let command = command(cell, &programs, 20);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_knows_each_row_and_column_by_its_name() {
        for row in Row::value_variants() {
            assert_eq!(row.to_possible_value().unwrap().get_name(), row.name());
        }
        for column in Column::value_variants() {
            assert_eq!(column.to_possible_value().unwrap().get_name(), column.name());
        }
    }

    #[test]
    fn a_column_decides_about_hogs_scheduling_and_tek() {
        assert_eq!(words((Row::Hogs, Column::Alone)), "program --row none --hogs 0");
        assert_eq!(words((Row::ManyHogs, Column::Nice)), "program --row none --hogs 200 --nice");
        assert_eq!(
            words((Row::Mutex, Column::PiMutex)),
            "program --row mutex --hogs 20 --real-time --inherit"
        );
        assert_eq!(
            words((Row::Join, Column::TekNoInherit)),
            "tek run --no-inherit --critical touch -- program --row join --hogs 20"
        );
    }

    #[test]
    fn only_rows_with_a_mutex_can_have_one_that_inherits() {
        let programs = programs();
        assert!(why_empty((Row::Mutex, Column::PiMutex), &programs).is_none());
        assert!(why_empty((Row::Rwlock, Column::PiMutex), &programs).is_some());
        assert!(why_empty((Row::Rwlock, Column::Tek), &programs).is_none());
    }

    #[test]
    fn without_a_tekd_its_column_is_empty_for_a_reason() {
        assert_eq!(why_empty((Row::Pipe, Column::Tekd), &programs()), Some("needs root"));
    }
}
