// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that gcc left beside its objects.
use anyhow::{bail, Context};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tek_stack::callgraph::Graph;

/// Longest file that is read, and how deep directories are searched.
const MOST_BYTES: u64 = 256 << 20;
const MOST_DEPTH: usize = 24;

/// The result of reading.
#[derive(Default)]
pub struct Found {
    /// The graph.
    pub graph: Graph,
    /// Call graphs.
    pub ci_files: usize,
    /// Files of frames without a call graph.
    pub su_files: usize,
}

/// Reads a path: one .ci or .su file, a directory with all below it, or a program with all beside
/// and below it.
pub fn read(path: &Path) -> anyhow::Result<Found> {
    let about = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    let mut files = BTreeSet::new();
    if about.is_dir() {
        collect(path, 0, &mut files);
    } else if is_ci(path) || is_su(path) {
        files.insert(path.to_owned());
    } else if about.is_file() {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        collect(directory.unwrap_or(Path::new(".")), 0, &mut files);
    } else {
        bail!("{} is neither a program nor a directory", path.display());
    }
    let mut found = Found::default();
    for file in &files {
        // The call graph contains the frames too.
        if is_su(file) && files.contains(&file.with_extension("ci")) {
            continue;
        }
        let bytes = contents(file).with_context(|| format!("cannot read {}", file.display()))?;
        if is_su(file) {
            found.su_files += usize::from(found.graph.add_su(&bytes) > 0);
        } else {
            found.ci_files += usize::from(found.graph.add_ci(&bytes) > 0);
        }
    }
    Ok(found)
}

fn is_ci(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ci")
}

fn is_su(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "su")
}

/// Links are not followed, so that each file is found once; unreadable directories are left out.
fn collect(directory: &Path, depth: usize, files: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            Ok(kind) if kind.is_dir() && depth < MOST_DEPTH => collect(&path, depth + 1, files),
            Ok(kind) if kind.is_file() && (is_ci(&path) || is_su(&path)) => {
                files.insert(path);
            }
            _ => {}
        }
    }
}

fn contents(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        bail!("it is no ordinary file");
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("it is longer than {} MiB", MOST_BYTES >> 20);
    }
    Ok(bytes)
}
