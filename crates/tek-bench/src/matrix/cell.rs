// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of the matrix: whether one can be measured, and by which command.

use super::column::Column;
use super::programs::Programs;
use super::row::Row;
use super::stage::Stage;
use std::path::Path;
use std::process::Command;

/// A row in a column.
pub type Cell = (Row, Column);

/// The name of the critical thread.
pub const CRITICAL: &str = "touch";

/// The hogs of the row many-hogs, by those of all other rows.
const MANY: usize = 10;

/// The name of a cell in the JSON document.
pub fn name((row, column): Cell) -> String {
    format!("{}/{}", row.name(), column.name())
}

/// Why the matrix has no such cell.
pub fn why_empty((row, column): Cell, programs: &Programs) -> Option<&str> {
    let of_column = match column {
        Column::PiMutex => (!row.has_mutex()).then_some("the row has no mutex"),
        Column::Tekd | Column::TekdFair => reason(&programs.stage),
        Column::Weights => reason(&programs.groups),
        _ => None,
    };
    of_column.or_else(|| match row {
        Row::RustMutex => reason(&programs.rust_mutex),
        Row::UserHogs => programs.why_no_other_user(),
        Row::Memory => programs.why_not_filled.as_deref(),
        _ => programs.with_server.get(&row).and_then(reason),
    })
}

fn reason<T>(of: &Result<T, String>) -> Option<&str> {
    of.as_ref().err().map(String::as_str)
}

/// The hogs of a cell.
pub fn hogs((row, column): Cell, hogs: usize) -> usize {
    match (column.has_hogs(), row) {
        (false, _) => 0,
        (true, Row::ManyHogs) => MANY * hogs,
        (true, _) => hogs,
    }
}

/// The command that measures a cell, which is not empty, with this many hogs. Options that all
/// cells share are to be added.
pub fn command(cell: Cell, programs: &Programs, hogs: usize) -> anyhow::Result<Command> {
    let (row, column) = cell;
    let program = programs.of(row);
    let mut command = match (&programs.stage, column.backend()) {
        (Ok(stage), Some(_)) => stage.command(CRITICAL, program),
        _ => started(column, &programs.tek, program),
    };
    if let (Column::Weights, Ok(groups)) = (column, &programs.groups) {
        groups.place(&mut command)?;
    }
    command.args(["--row", row.dependency(), "--hogs", &hogs.to_string()]);
    if let (Row::RustMutex, Ok(library)) = (row, &programs.rust_mutex) {
        let copy = match (&programs.stage, column.backend()) {
            (Ok(stage), Some(_)) => stage.copy_of(library),
            _ => library.clone(),
        };
        command.arg("--library").arg(copy);
    }
    command.args(column.options());
    add_group(&mut command, column, programs);
    Ok(command)
}

/// The command that has a critical thread for a moment, without hogs, to begin a daemon's work.
pub fn first_command(stage: &Stage, programs: &Programs, iterations_per_ms: u64) -> Command {
    let mut command = stage.command(CRITICAL, &programs.dependencies);
    command.args(["--events", "1", "--iterations-per-ms", &iterations_per_ms.to_string()]);
    command
}

/// The command that starts hogs alone, for a cell whose program starts none.
pub fn hogs_command((_, column): Cell, programs: &Programs) -> Command {
    let mut command = Command::new(&programs.dependencies);
    add_group(&mut command, column, programs);
    command
}

fn add_group(command: &mut Command, column: Column, programs: &Programs) {
    if let (Column::Weights, Ok(groups)) = (column, &programs.groups) {
        command.arg("--hogs-group").arg(groups.hogs());
    }
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
        Programs {
            tek: "tek".into(),
            dependencies: "program".into(),
            with_server: [(Row::Dbus, Err("no libdbus".to_owned()))].into(),
            rust_mutex: Ok("mutex.so".into()),
            is_root: false,
            why_not_filled: Some("too much memory".to_owned()),
            stage: Err("needs root".to_owned()),
            groups: Err("no control groups".to_owned()),
        }
    }

    fn words(cell: Cell) -> String {
        let command = command(cell, &programs(), hogs(cell, 20)).unwrap();
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_column_decides_about_hogs_scheduling_and_tek() {
        assert_eq!(words((Row::Hogs, Column::Alone)), "program --row none --hogs 0");
        assert_eq!(words((Row::ManyHogs, Column::Nice)), "program --row none --hogs 200 --nice");
        assert_eq!(words((Row::Pipe, Column::Rtkit)), "program --row pipe --hogs 20 --rtkit");
        assert_eq!(
            words((Row::Mutex, Column::PiMutex)),
            "program --row mutex --hogs 20 --real-time --inherit"
        );
        assert_eq!(
            words((Row::RustMutex, Column::Conventional)),
            "program --row rust-mutex --hogs 20 --library mutex.so"
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
    fn what_the_machine_lacks_leaves_its_cells_empty_for_a_reason() {
        let programs = programs();
        let why = |row, column| why_empty((row, column), &programs).unwrap_or("measured");
        assert_eq!(why(Row::Pipe, Column::Tekd), "needs root");
        assert_eq!(why(Row::Pipe, Column::TekdFair), "needs root");
        assert_eq!(why(Row::Dbus, Column::Chrt), "no libdbus");
        assert_eq!(why(Row::Pipe, Column::Weights), "no control groups");
        assert_eq!(why(Row::Memory, Column::Chrt), "too much memory");
        assert!(why(Row::UserHogs, Column::Chrt).contains("root"));
        assert_eq!(why(Row::Pipe, Column::Chrt), "measured");
    }
}
