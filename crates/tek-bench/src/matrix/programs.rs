// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the cells need of the machine: programs, a daemon and control groups.

use super::column::Column;
use super::row::Row;
use super::stage::Stage;
use super::weights::Groups;
use crate::programs;
use nix::unistd::geteuid;
use std::path::{Path, PathBuf};

const BENCH: &str = "matrix";
const PROGRAM: &str = "dependencies";
const WITH_DBUS: &str = "dependencies-dbus";
const MUTEX: &str = "libtek_bench_mutex.so";

const NO_DBUS: &str = "dependencies-dbus was not built, because libdbus-1 was missing; \
                       apt-get install libdbus-1-dev, then build again";
const NOT_ASKED_FOR: &str = "the column was not asked for";

/// All of it. An error is why the cells that need it are empty.
pub struct Programs {
    pub tek: PathBuf,
    pub dependencies: PathBuf,
    /// The same program with the row dbus.
    pub with_dbus: Result<PathBuf, String>,
    /// The library with the mutex of the row rust-mutex.
    pub rust_mutex: Result<PathBuf, String>,
    pub is_root: bool,
    pub stage: Result<Stage, String>,
    pub groups: Result<Groups, String>,
}

impl Programs {
    /// Prepares what these columns need.
    pub fn prepare(columns: &[Column]) -> anyhow::Result<Self> {
        let tek = programs::tek()?;
        let dependencies = programs::find(BENCH, PROGRAM)?;
        let with_dbus = programs::find(BENCH, WITH_DBUS).map_err(|_| NO_DBUS.to_owned());
        let rust_mutex = programs::find(BENCH, MUTEX).map_err(|error| format!("{error:#}"));
        let mut copied = vec![(BENCH, PROGRAM, PROGRAM)];
        copied.extend(with_dbus.is_ok().then_some((BENCH, WITH_DBUS, WITH_DBUS)));
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
        Ok(Self { tek, dependencies, with_dbus, rust_mutex, is_root, stage, groups })
    }

    /// The program of a row.
    pub fn of(&self, row: Row) -> &Path {
        match (row, &self.with_dbus) {
            (Row::Dbus, Ok(program)) => program,
            _ => &self.dependencies,
        }
    }

    /// Why hogs cannot belong to another user.
    pub fn why_no_other_user(&self) -> Option<&'static str> {
        (!self.is_root).then_some("hogs of another user need root; run tek bench as root")
    }
}
