// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common parts of all guests: init, busybox, TEK, a few users, and the modules of its kernel.
use crate::kernel::{self, Obtained};
use crate::manifest::Contents;
use crate::tree::{Node, Tree};
use crate::Kind;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The first program.
const INIT: &str = include_str!("../../../lab/guest/init");

/// Users, their groups, and where the loopback interface is.
const ETC: [(&str, &str); 3] = [
    ("/etc/passwd", include_str!("../../../lab/guest/passwd")),
    ("/etc/group", include_str!("../../../lab/guest/group")),
    ("/etc/hosts", include_str!("../../../lab/guest/hosts")),
];

/// The kernel's modules, and a file with their names.
const MODULES: &str = "/usr/lib/tek-lab/modules";

/// Where file systems are mounted, by init or for each job.
const PLACES: [&str; 14] = [
    "/dev",
    "/dev/pts",
    "/dev/shm",
    "/disk",
    "/home",
    "/mnt",
    "/out",
    "/proc",
    "/root",
    "/run",
    "/sys",
    "/tmp",
    "/usr/lib/tek-lab/job",
    "/var",
];

/// Why a common part is missing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no busybox.
    #[error("there is no {0}, which every guest has; install the package busybox-static")]
    NoBusybox(PathBuf),
    /// A busybox that does not list its applets.
    #[error("cannot run busybox: {0}; install the package busybox-static")]
    Busybox(io::Error),
    /// There is no program that formats the disk.
    #[error("there is no {0}, which a guest with a disk needs; install the package e2fsprogs")]
    NoMke2fs(PathBuf),
    /// A module that the kernel needs is missing.
    #[error(transparent)]
    Modules(#[from] kernel::Error),
    /// It cannot be read.
    #[error("cannot read {path}: {error}; fetch the kernel again", path = .0.display(), error = .1)]
    Module(PathBuf, io::Error),
    /// Another common part cannot be read.
    #[error("cannot read {path}, which every guest has: {error}; {cure}", path = path.display())]
    Part {
        /// Its name.
        path: PathBuf,
        /// The error.
        error: io::Error,
        /// The cure.
        cure: &'static str,
    },
}

/// The file system of a guest of that kind, with nothing added.
pub fn tree(kind: &Kind, kernel: &Obtained, contents: &Contents) -> Result<Tree, Error> {
    let mut tree = Tree::new();
    tree.put_text("/init", 0o755, INIT);
    for place in PLACES {
        tree.put(Path::new(place), Node::Directory(0o755));
    }
    // The kernel opens it before init has mounted anything.
    tree.put(Path::new("/dev/console"), Node::Device(5, 1));
    for (path, text) in ETC {
        tree.put_text(path, 0o644, text);
    }
    tree.put_text("/etc/tek-lab", 0o644, about(kind));
    let root = contents.sysroot.as_deref().unwrap_or(Path::new("/"));
    // First, for it unpacks modules.
    add_busybox(&mut tree, root)?;
    add_modules(&mut tree, kind, kernel)?;
    if kind.disk.is_some() {
        add_mke2fs(&mut tree, root)?;
    }
    add_tek(&mut tree, &contents.tek)?;
    Ok(tree)
}

/// Settings that init reads, as shell variables.
fn about(kind: &Kind) -> String {
    let cgroups = match kind.cgroups {
        crate::kinds::Cgroups::V1 => "v1",
        crate::kinds::Cgroups::V2 => "v2",
    };
    let packed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("kind={}\ncgroups={cgroups}\npacked={packed}\n", kind.name)
}

/// The kernel's modules without which there is no port to the host, and no disk, in the order in
/// which init loads them.
fn add_modules(tree: &mut Tree, kind: &Kind, kernel: &Obtained) -> Result<(), Error> {
    let mut order = String::new();
    // A kernel without known modules has them built in.
    if kernel.modules.is_some() {
        let mut names = vec!["virtio_pci", "virtio_console"];
        if kind.disk.is_some() {
            names.extend(["virtio_blk", "ext4"]);
        }
        names.extend(kind.modules.iter().map(String::as_str));
        for (number, file) in kernel::modules(kernel, &names)?.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{number:02}-{}", name.trim_end_matches(".xz"));
            let unread = |error| Error::Module(file.clone(), error);
            let place = format!("{MODULES}/{name}");
            match file.extension() == Some(OsStr::new("xz")) {
                true => tree.put_text(&place, 0o644, unpacked(file).map_err(unread)?),
                false => tree.put_file(Path::new(&place), file).map_err(unread)?,
            }
            order += &name;
            order += "\n";
        }
    }
    tree.put_text(&format!("{MODULES}/order"), 0o644, order);
    Ok(())
}

/// A module as the kernel loads it, unpacked: an emulated kernel would take long to unpack it.
fn unpacked(file: &Path) -> io::Result<Vec<u8>> {
    let unpacked = Command::new("busybox").args(["unxz", "-c"]).arg(file).output()?;
    match unpacked.status.success() {
        true => Ok(unpacked.stdout),
        false => {
            let why = String::from_utf8_lossy(&unpacked.stderr);
            Err(io::Error::other(why.trim().to_owned()))
        }
    }
}

/// The program that makes the file system on the disk.
fn add_mke2fs(tree: &mut Tree, root: &Path) -> Result<(), Error> {
    let places = ["sbin/mke2fs", "usr/sbin/mke2fs"].map(|path| root.join(path));
    let mke2fs = places.iter().find(|path| path.exists());
    let mke2fs = mke2fs.ok_or_else(|| Error::NoMke2fs(places[0].clone()))?;
    let cure = "install the package e2fsprogs";
    add_part(tree, "/usr/sbin/mke2fs", mke2fs, cure)?;
    // Without it, it makes file systems without a journal.
    add_part(tree, "/etc/mke2fs.conf", &root.join("etc/mke2fs.conf"), cure)
}

fn add_busybox(tree: &mut Tree, root: &Path) -> Result<(), Error> {
    let places = ["bin/busybox", "usr/bin/busybox"].map(|path| root.join(path));
    let busybox = places.iter().find(|path| path.exists());
    let busybox = busybox.ok_or_else(|| Error::NoBusybox(places[0].clone()))?;
    add_part(tree, "/bin/busybox", busybox, "install the package busybox-static")?;
    // Only a busybox of this architecture can be run; the other one is of the same release.
    let applets = Command::new("busybox").arg("--list").output().map_err(Error::Busybox)?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|name| *name != "busybox")
    {
        tree.put(&Path::new("/usr/bin").join(applet), Node::Link("busybox".into()));
    }
    Ok(())
}

/// TEK's files that every guest has, and their places.
const OWN: [(&str, &str); 3] =
    [("bin/tek", "/usr/bin/tek"), ("bin/tek-lab", AGENT), ("lib/libtek.so", "/usr/lib/libtek.so")];

/// The program that becomes process 1.
const AGENT: &str = "/usr/bin/tek-lab";

/// Libraries beside libtek.so that `tek run` and `tek profile` preload; a build may lack some.
const BESIDE: [&str; 6] = [
    "libtek-alloc.so",
    "libtek-libm-musl.so",
    "libtek-profile.so",
    "libtek-rtfifo.so",
    "libtek-sync.so",
    "libtek-uthread.so",
];

const BUILD: &str = "build it with `make build`, for another processor with tools/cross";

/// Whether a directory has TEK's files that every guest needs.
pub fn check_own(tek: &Path) -> Result<(), Error> {
    OWN.iter().map(|(from, _)| tek.join(from)).try_for_each(|path| match File::open(&path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::Part { path, error, cure: BUILD }),
    })
}

fn add_tek(tree: &mut Tree, tek: &Path) -> Result<(), Error> {
    for (from, to) in OWN {
        add_part(tree, to, &tek.join(from), BUILD)?;
    }
    for name in BESIDE {
        let _ = tree.put_file(&Path::new("/usr/lib").join(name), &tek.join("lib").join(name));
    }
    // The one for 32-bit programs is not built everywhere.
    let _ = tree.put_file(Path::new("/usr/lib32/libtek.so"), &tek.join("lib32/libtek.so"));
    Ok(())
}

fn add_part(tree: &mut Tree, to: &str, from: &Path, cure: &'static str) -> Result<(), Error> {
    let put = tree.put_file(Path::new(to), from);
    put.map_err(|error| Error::Part { path: from.to_owned(), error, cure })
}

#[cfg(test)]
mod tests {
    use super::{add_tek, OWN};
    use crate::tree::Tree;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_guest_has_the_libraries_that_the_build_has() {
        let build = tempfile::tempdir().unwrap();
        for (from, _) in OWN.into_iter().chain([("lib/libtek-sync.so", "")]) {
            let path = build.path().join(from);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mut tree = Tree::new();
        add_tek(&mut tree, build.path()).unwrap();
        assert!(tree.get(Path::new("/usr/lib/libtek-sync.so")).is_some());
        assert!(tree.get(Path::new("/usr/lib/libtek-alloc.so")).is_none());
    }

    #[test]
    fn a_part_that_cannot_be_read_is_named_with_the_reason_and_a_cure() {
        let nothing = tempfile::tempdir().unwrap();
        let error = add_tek(&mut Tree::new(), nothing.path()).unwrap_err().to_string();
        let tek = nothing.path().join("bin/tek");
        assert!(error.starts_with(&format!("cannot read {}, which every guest", tek.display())));
        assert!(error.contains("No such file or directory"), "{error}");
        assert!(error.contains("; build it with `make build`"), "{error}");
    }
}
