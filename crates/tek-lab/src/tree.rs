// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's file system before it is packed: what lies where.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Directories of old that are links into /usr.
const MERGED: [&str; 5] = ["bin", "sbin", "lib", "lib32", "lib64"];

/// The node at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory with these permissions.
    Directory(u32),
    /// A file with these permissions, and where its bytes come from.
    File(u32, Bytes),
    /// A symbolic link to this.
    Link(PathBuf),
    /// A character device: major and minor number.
    Device(u32, u32),
}

/// The bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The bytes of a file of this machine.
    Of(PathBuf),
    /// These bytes.
    Are(Vec<u8>),
}

/// Paths and their nodes. All belongs to root. Parent directories are added implicitly, and /bin,
/// /lib and the like are links into /usr: a file put there lies in /usr.
#[derive(Clone, Debug)]
pub struct Tree {
    /// By path, without the leading slash: a directory comes before what is in it.
    nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    /// An empty file system, but for the links into /usr.
    pub fn new() -> Self {
        let mut tree = Self { nodes: BTreeMap::new() };
        for name in MERGED {
            let target = Path::new("usr").join(name);
            tree.nodes.insert(target.clone(), Node::Directory(0o755));
            tree.nodes.insert(name.into(), Node::Link(target));
        }
        tree.nodes.insert("usr".into(), Node::Directory(0o755));
        tree
    }

    /// Puts something at a path, in place of what was there.
    pub fn put(&mut self, path: &Path, node: Node) {
        let path = place(path);
        if path.as_os_str().is_empty() {
            return; // the root itself
        }
        let mut above = path.parent();
        while let Some(directory) = above.filter(|path| !path.as_os_str().is_empty()) {
            self.nodes.entry(directory.to_owned()).or_insert(Node::Directory(0o755));
            above = directory.parent();
        }
        // An implicit directory does not replace a node that exists.
        match (self.nodes.get(&path), &node) {
            (Some(Node::Link(_)), Node::Directory(_))
                if MERGED.iter().any(|name| path == Path::new(name)) => {}
            _ => drop(self.nodes.insert(path, node)),
        }
    }

    /// Puts a file of this machine there, with its permissions; links to it are followed.
    pub fn put_file(&mut self, path: &Path, from: &Path) -> io::Result<()> {
        let mode = from.metadata()?.permissions().mode() & 0o7777;
        self.put(path, Node::File(mode, Bytes::Of(from.to_owned())));
        Ok(())
    }

    /// Puts a file with these bytes there.
    pub fn put_text(&mut self, path: &str, mode: u32, text: impl Into<Vec<u8>>) {
        self.put(Path::new(path), Node::File(mode, Bytes::Are(text.into())));
    }

    /// The node at a path, without following links (but /bin and the like).
    pub fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(&place(path))
    }

    /// All paths, without the leading slash, each after its directory.
    pub fn nodes(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }
}

/// Where a path lies: from the root, without `.` and `..`, and in /usr if it is one of those.
fn place(path: &Path) -> PathBuf {
    let mut place = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => drop(place.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    let first = place.components().next().map(|first| first.as_os_str().as_bytes());
    let merged = MERGED.iter().any(|name| first == Some(name.as_bytes()));
    if merged && place.components().count() > 1 {
        return Path::new("usr").join(place);
    }
    place
}

impl Bytes {
    /// How many, and a reader of them.
    pub fn open(&self) -> io::Result<(u64, Box<dyn Read + '_>)> {
        Ok(match self {
            Self::Are(bytes) => (bytes.len() as u64, Box::new(bytes.as_slice())),
            Self::Of(path) => {
                let file = File::open(path)?;
                (file.metadata()?.len(), Box::new(file))
            }
        })
    }
}

impl Node {
    /// The file of this machine that the node copies.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(_, Bytes::Of(path)) => Some(path),
            _ => None,
        }
    }

    /// When that file was changed last, in seconds since 1970; otherwise 0.
    pub fn modified(&self) -> i64 {
        self.file().and_then(|file| file.metadata().ok()).map_or(0, |about| about.mtime())
    }

    /// Whether it is a file that can be run.
    pub fn is_executable(&self) -> bool {
        matches!(self, Self::File(mode, _) if mode & 0o111 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{place, Node, Tree};
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::path::{Component, Path, PathBuf};

    #[test]
    fn what_is_put_into_bin_or_lib_lies_in_usr() {
        let mut tree = Tree::new();
        tree.put_text("/bin/sh", 0o755, "");
        tree.put_text("/lib/x86_64-linux-gnu/libc.so.6", 0o644, "");
        tree.put(Path::new("/lib"), Node::Directory(0o755));
        let paths: Vec<_> = tree.nodes().map(|(path, _)| path.display().to_string()).collect();
        assert!(paths.contains(&"usr/bin/sh".into()));
        assert!(paths.contains(&"usr/lib/x86_64-linux-gnu/libc.so.6".into()));
        assert_eq!(tree.get(Path::new("/lib")), Some(&Node::Link("usr/lib".into())));
        assert_eq!(tree.get(Path::new("/usr/bin/sh")), tree.get(Path::new("/bin/sh")));
    }

    #[test]
    fn permissions_of_a_directory_stay_when_something_is_put_into_it() {
        let mut tree = Tree::new();
        tree.put(Path::new("/root"), Node::Directory(0o700));
        tree.put_text("/root/a/b", 0o644, "");
        assert_eq!(tree.get(Path::new("/root")), Some(&Node::Directory(0o700)));
        assert_eq!(tree.get(Path::new("/root/a")), Some(&Node::Directory(0o755)));
    }

    proptest! {
        #[test]
        fn every_path_has_one_place_below_the_root(path in "[a-z./]{0,30}") {
            let path = place(Path::new(&path));
            prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
            prop_assert_eq!(place(&path), path);
        }

        #[test]
        fn a_directory_comes_before_what_is_in_it(
            paths in proptest::collection::vec("[abil./-]{1,9}", 0..9),
        ) {
            let mut tree = Tree::new();
            for path in &paths {
                tree.put_text(path, 0o644, "");
            }
            let mut seen = HashSet::from([PathBuf::new()]);
            for (path, _) in tree.nodes() {
                prop_assert!(seen.contains(path.parent().unwrap_or(Path::new(""))), "{:?}", path);
                seen.insert(path.to_owned());
            }
        }
    }
}
