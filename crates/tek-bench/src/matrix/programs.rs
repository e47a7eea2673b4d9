// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the cells need of the machine: programs, a daemon and control groups.

use super::column::Column;
use super::row::{Row, Server};
use super::stage::Stage;
use super::weights::Groups;
use crate::memory;
use crate::programs;
use clap::ValueEnum;
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BENCH: &str = "matrix";
const PROGRAM: &str = "dependencies";
const MUTEX: &str = "libtek_bench_mutex.so";

const NOT_ASKED_FOR: &str = "the column was not asked for";

/// All of it. An error is why the cells that need it are empty.
pub struct Programs {
    pub tek: PathBuf,
    pub dependencies: PathBuf,
    /// The programs of rows with a server.
    pub with_server: BTreeMap<Row, Result<PathBuf, String>>,
    /// The library with the mutex of the row rust-mutex.
    pub rust_mutex: Result<PathBuf, String>,
    pub is_root: bool,
    /// Why the row memory is empty.
    pub why_not_filled: Option<String>,
    pub stage: Result<Stage, String>,
    pub groups: Result<Groups, String>,
}

impl Programs {
    /// Prepares what these columns need.
    pub fn prepare(columns: &[Column]) -> anyhow::Result<Self> {
        let tek = programs::tek()?;
        let dependencies = programs::find(BENCH, PROGRAM)?;
        let with_server = with_server(&dependencies);
        let rust_mutex = programs::find(BENCH, MUTEX).map_err(|error| format!("{error:#}"));
        let mut copied = vec![(BENCH, PROGRAM, PROGRAM)];
        let clients = with_server.iter().filter(|(_, program)| program.is_ok());
        let clients = clients.filter_map(|(row, _)| row.server()?.client.as_ref());
        copied.extend(clients.map(|(name, _)| (BENCH, *name, *name)));
        copied.extend(rust_mutex.is_ok().then_some((BENCH, MUTEX, MUTEX)));
        let stage = match columns.iter().any(|column| column.backend().is_some()) {
            true => Stage::prepare(&tek, &copied),
            false => Err(NOT_ASKED_FOR.to_owned()),
        };
        let groups = match columns.contains(&Column::Weights) {
            true => Groups::make(),
            false => Err(NOT_ASKED_FOR.to_owned()),
        };
        let is_root = geteuid().is_root();
        let why_not_filled = memory::to_fill().err();
        Ok(Self {
            tek,
            dependencies,
            with_server,
            rust_mutex,
            is_root,
            why_not_filled,
            stage,
            groups,
        })
    }

    /// The program of a row.
    pub fn of(&self, row: Row) -> &Path {
        match self.with_server.get(&row) {
            Some(Ok(program)) => program,
            _ => &self.dependencies,
        }
    }

    /// Why hogs cannot belong to another user.
    pub fn why_no_other_user(&self) -> Option<&'static str> {
        (!self.is_root).then_some("hogs of another user need root; run tek bench as root")
    }
}

fn with_server(usual: &Path) -> BTreeMap<Row, Result<PathBuf, String>> {
    let of = |row: &Row| Some((*row, client(row.server()?, usual)));
    Row::value_variants().iter().filter_map(of).collect()
}

/// The program that asks a server, or why there is none.
fn client(server: &Server, usual: &Path) -> Result<PathBuf, String> {
    if programs::installed(server.program).is_none() {
        let cure = tek_advice::install(&[server.package], None);
        return Err(format!("{} is not installed; {cure}", server.program));
    }
    let Some((name, library)) = &server.client else { return Ok(usual.to_owned()) };
    programs::find(BENCH, name).map_err(|_| {
        let cure = tek_advice::install(&[*library], None);
        format!("{name} was not built, because a library was missing; {cure}, then build again")
    })
}
