// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts files and directories of this machine into a guest.
use crate::tree::{Node, Tree};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Why something cannot be put into a guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {path} for the guest: {error}", path = .0.display(), error = .1)]
    Read(PathBuf, io::Error),
    /// It is neither a file, a link nor a directory: a socket, for example.
    #[error("{} can not be taken into a guest: it is neither a file nor a directory", .0.display())]
    Odd(PathBuf),
}

/// Adds a file, or a directory with all that is in it. A link is followed. A link that keeps its
/// place stays a link, and its target is added where the guest lacks it. In a directory, links that
/// lead out of it are followed.
pub fn add(tree: &mut Tree, from: &Path, to: &Path) -> Result<(), Error> {
    let unread = |error| Error::Read(from.to_owned(), error);
    let link = from.symlink_metadata().map_err(unread)?.is_symlink();
    if link && from == to {
        return add_link(tree, from);
    }
    let about = from.metadata().map_err(unread)?;
    match (about.is_dir(), about.is_file()) {
        (true, _) => follow_directory(tree, from, to, &mut Vec::new()).map(drop),
        (_, true) => tree.put_file(to, from).map_err(unread),
        _ => Err(Error::Odd(from.to_owned())),
    }
}

fn add_link(tree: &mut Tree, path: &Path) -> Result<(), Error> {
    let target = fs::read_link(path).map_err(|error| Error::Read(path.to_owned(), error))?;
    tree.put(path, Node::Link(target.clone()));
    let target = joined(path.parent().unwrap_or(Path::new("/")), &target);
    match (target.is_file() || target.is_dir()) && tree.get(&target).is_none() {
        true => add(tree, &target, &target),
        false => Ok(()),
    }
}

/// A path as seen from a directory, without `..`.
fn joined(directory: &Path, path: &Path) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in directory.join(path).components() {
        match component {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined
}

/// Adds a directory to which a link may have led. False: it is, or is above, one of the open
/// directories. The link was found in that one, so the recursion would have no end.
fn follow_directory(
    tree: &mut Tree,
    from: &Path,
    to: &Path,
    open: &mut Vec<PathBuf>,
) -> Result<bool, Error> {
    let whole = from.canonicalize().map_err(|error| Error::Read(from.to_owned(), error))?;
    if open.iter().any(|directory| directory.starts_with(&whole)) {
        return Ok(false);
    }
    open.push(whole.clone());
    add_directory(tree, &whole, to, &whole, open)?;
    open.pop();
    Ok(true)
}

fn add_directory(
    tree: &mut Tree,
    from: &Path,
    to: &Path,
    top: &Path,
    open: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let unread = |error| Error::Read(from.to_owned(), error);
    let mode = from.metadata().map_err(unread)?.permissions().mode() & 0o7777;
    tree.put(to, Node::Directory(mode));
    for entry in fs::read_dir(from).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let (path, place) = (entry.path(), to.join(entry.file_name()));
        let unread = |error| Error::Read(path.clone(), error);
        let kind = entry.file_type().map_err(unread)?;
        if kind.is_dir() {
            add_directory(tree, &path, &place, top, open)?;
        } else if kind.is_file() {
            tree.put_file(&place, &path).map_err(unread)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(unread)?;
            let inside = target.is_relative() && joined(from, &target).starts_with(top);
            if !inside && path.is_file() {
                tree.put_file(&place, &path).map_err(unread)?;
            } else if inside || !path.is_dir() || !follow_directory(tree, &path, &place, open)? {
                tree.put(&place, Node::Link(target));
            }
        } // sockets, pipes and devices are of no use there
    }
    Ok(())
}

/// Adds the interpreters that scripts name in their first line, where they are not there.
pub fn add_interpreters(tree: &mut Tree) -> Result<(), Error> {
    let mut wanted = Vec::new();
    for (_, node) in tree.nodes() {
        let Some(file) = node.file().filter(|_| node.is_executable()) else { continue };
        wanted.extend(interpreter(file));
    }
    for path in wanted {
        if tree.get(&path).is_none() && path.is_file() {
            add(tree, &path, &path)?;
        }
    }
    Ok(())
}

/// The text after `#!`.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    fs::File::open(file).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    path.starts_with('/').then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::{add, add_interpreters};
    use crate::tree::{Node, Tree};
    use std::fs;
    use std::os::unix::fs::{symlink, PermissionsExt};
    use std::path::Path;

    #[test]
    fn a_link_that_keeps_its_place_takes_its_file_along() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("python3.11"), "").unwrap();
        symlink("python3.11", top.path().join("python3")).unwrap();
        let link = top.path().join("python3");
        let mut tree = Tree::new();
        add(&mut tree, &link, &link).unwrap();
        assert_eq!(tree.get(&link), Some(&Node::Link("python3.11".into())));
        assert!(tree.get(&top.path().join("python3.11")).is_some());
        add(&mut tree, &link, Path::new("/opt/python")).unwrap();
        assert_eq!(tree.get(Path::new("/opt/python")).and_then(Node::file), Some(link.as_path()));
    }

    #[test]
    fn links_within_a_directory_stay_and_other_links_are_followed() {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("d");
        fs::create_dir_all(directory.join("below")).unwrap();
        fs::write(directory.join("file"), "").unwrap();
        fs::write(top.path().join("outside"), "").unwrap();
        symlink("../file", directory.join("below/inner")).unwrap();
        symlink("../outside", directory.join("outer")).unwrap();
        symlink("nowhere", directory.join("dangling")).unwrap();
        let mut tree = Tree::new();
        add(&mut tree, &directory, Path::new("/d")).unwrap();
        let node = |path: &str| tree.get(Path::new(path)).cloned();
        assert_eq!(node("/d/below/inner"), Some(Node::Link("../file".into())));
        assert_eq!(node("/d/dangling"), Some(Node::Link("nowhere".into())));
        assert!(node("/d/outer").unwrap().file().is_some());
        assert!(node("/d/file").is_some());
    }

    #[test]
    fn a_link_to_a_directory_that_keeps_its_place_takes_it_along() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("data-2")).unwrap();
        fs::write(top.path().join("data-2/file"), "").unwrap();
        symlink("data-2", top.path().join("data")).unwrap();
        let link = top.path().join("data");
        let mut tree = Tree::new();
        add(&mut tree, &link, &link).unwrap();
        assert_eq!(tree.get(&link), Some(&Node::Link("data-2".into())));
        assert!(tree.get(&top.path().join("data-2/file")).is_some());
        // Packages have such links: a guest needs none of the rest of /usr/bin.
        let mut tree = Tree::new();
        add(&mut tree, Path::new("/bin"), Path::new("/bin")).unwrap();
        assert!(tree.get(Path::new("/usr/bin/env")).is_none());
    }

    #[test]
    fn links_to_directories_outside_are_followed_but_not_in_circles() {
        let top = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| top.path().join(name));
        for directory in [&one, &two] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(two.join("file"), "").unwrap();
        symlink("file", two.join("inner")).unwrap();
        symlink("../two", one.join("two")).unwrap();
        symlink("../one", two.join("one")).unwrap();
        symlink("..", one.join("up")).unwrap();
        let mut tree = Tree::new();
        add(&mut tree, &one, Path::new("/d")).unwrap();
        let node = |path: &str| tree.get(Path::new(path)).cloned();
        assert!(node("/d/two/file").unwrap().file().is_some());
        assert_eq!(node("/d/two/inner"), Some(Node::Link("file".into())));
        assert_eq!(node("/d/two/one"), Some(Node::Link("../one".into())));
        assert_eq!(node("/d/up"), Some(Node::Link("..".into())));
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        let top = tempfile::tempdir().unwrap();
        let script = top.path().join("script");
        fs::write(&script, "#! /bin/ls -x\n").unwrap();
        let mut tree = Tree::new();
        tree.put_file(Path::new("/script"), &script).unwrap();
        add_interpreters(&mut tree).unwrap();
        assert!(tree.get(Path::new("/bin/ls")).is_none(), "it is not executable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        tree.put_file(Path::new("/script"), &script).unwrap();
        add_interpreters(&mut tree).unwrap();
        assert!(tree.get(Path::new("/bin/ls")).is_some());
    }
}
