// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files to load for a module, and their order.
use super::{Error, Obtained};
use crate::programs;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of these modules and of all that they need, in the order in which they can be loaded.
/// Modules that are built in are left out.
pub fn modules(kernel: &Obtained, names: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let mut finder = Finder::new(kernel);
    for name in names {
        finder.add(&plain(name))?;
    }
    Ok(finder.order)
}

struct Finder<'a> {
    kernel: &'a Obtained,
    builtin: HashSet<String>,
    files: HashMap<String, PathBuf>,
    seen: HashSet<String>,
    order: Vec<PathBuf>,
}

impl<'a> Finder<'a> {
    fn new(kernel: &'a Obtained) -> Self {
        let mut files = HashMap::new();
        let mut builtin = HashSet::new();
        if let Some(directory) = &kernel.modules {
            collect(&directory.join("kernel"), &mut files);
            let listed = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
            builtin.extend(listed.lines().filter_map(|line| name_of(Path::new(line))));
        }
        Self { kernel, builtin, files, seen: HashSet::new(), order: Vec::new() }
    }

    fn add(&mut self, name: &str) -> Result<(), Error> {
        if self.builtin.contains(name) || !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).cloned().ok_or_else(|| self.missing(name))?;
        let needs = needs(&path)?;
        // A soft dependency may be built in under another name, or missing.
        for name in &needs.requests {
            if let Some(wished) = self.known(name) {
                self.add(&wished)?;
            }
        }
        for needed in &needs.needs {
            self.add(needed)?;
        }
        self.order.push(path);
        Ok(())
    }

    /// The module of a name that may be an alias. Only depmod makes the list of all aliases,
    /// modules.alias; the soft dependencies of file systems are aliases of the kernel's ciphers.
    fn known(&self, name: &str) -> Option<String> {
        let cipher = name.strip_prefix("crypto_").map(|cipher| format!("{cipher}_generic"));
        [Some(name.to_owned()), cipher]
            .into_iter()
            .flatten()
            .find(|name| self.files.contains_key(name))
    }

    fn missing(&self, module: &str) -> Error {
        Error::NoModule {
            release: self.kernel.release.clone(),
            module: module.to_owned(),
            cure: if self.kernel.has_all_modules() {
                "this kernel was built without it, so take a kind with another kernel"
            } else {
                "its modules are not here; fetch them with tek lab fetch --modules, or name their \
                 directory with --modules DIR"
            },
        }
    }
}

fn collect(directory: &Path, files: &mut HashMap<String, PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, files);
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
}

/// The name of a module's file: `kernel/drivers/…/virtio_blk.ko.xz`.
fn name_of(path: &Path) -> Option<String> {
    let (name, rest) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".gz" | ".zst").then(|| plain(name))
}

/// A module's file name may have "-" where the kernel has "_".
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The modules to load before a module.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    needs: Vec<String>,
    /// Soft dependencies: the module loads without them.
    requests: Vec<String>,
}

/// Runs modinfo: `depmod` would take 12 s for all of a kernel's modules.
fn needs(path: &Path) -> Result<Needs, Error> {
    let error = |why: String| Error::Modinfo { path: path.to_owned(), why };
    // A user's PATH has no /sbin.
    let modinfo = programs::find("modinfo").unwrap_or_else(|| "modinfo".into());
    let output =
        Command::new(modinfo).arg(path).output().map_err(|source| error(source.to_string()))?;
    if !output.status.success() {
        return Err(error(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Lines of modinfo: "depends: a,b" and "softdep: pre: c d post: e".
fn parse(information: &str) -> Needs {
    let mut found = Needs::default();
    for line in information.lines() {
        if let Some(names) = line.strip_prefix("depends:") {
            let names = names.trim().split(',').filter(|name| !name.is_empty());
            found.needs.extend(names.map(plain));
        } else if let Some(names) = line.strip_prefix("softdep:") {
            let before = names.split("post:").next().unwrap_or_default();
            let names = before.split_whitespace().filter(|word| *word != "pre:");
            found.requests.extend(names.map(plain));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{modules, name_of, parse, Needs};
    use crate::kernel::Obtained;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    /// The part of a module that modinfo reads: an object file with a section of that name.
    fn a_module(depends: &str) -> Vec<u8> {
        let (depends, requests) = depends.split_once(' ').unwrap_or((depends, ""));
        let information = format!("depends={depends}\0softdep={requests}\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let (start, names_start) = (64, 64 + information.len());
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let sections = names_start + names.len();
        for half in [1u16, 62] {
            file.extend(half.to_le_bytes()); // relocatable, x86-64
        }
        file.extend(1u32.to_le_bytes());
        for word in [0u64, 0, sections as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 0, 0, 64, 3, 2] {
            file.extend(half.to_le_bytes());
        }
        file.extend(information.as_bytes());
        file.extend(names);
        let mut section = |name: u32, kind: u32, offset: usize, size: usize| {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            // Flags, address, offset, size; link and info in one; alignment, size of an entry.
            for word in [0, 0, offset as u64, size as u64, 0, 1, 0] {
                file.extend(word.to_le_bytes());
            }
        };
        section(0, 0, 0, 0);
        section(1, 1, start, information.len());
        section(10, 3, names_start, names.len());
        file
    }

    fn kernel(top: &Path) -> Obtained {
        Obtained {
            release: "7.2".into(),
            architecture: "amd64".into(),
            image: top.join("vmlinuz"),
            modules: Some(top.join("modules")),
            config: None,
        }
    }

    #[test]
    fn modules_come_after_what_they_need_and_without_what_is_built_in() {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("modules/kernel/fs/ext4");
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            top.path().join("modules/modules.builtin"),
            "kernel/drivers/virtio/virtio-ring.ko\n",
        )
        .unwrap();
        for (name, depends) in [
            ("ext4", "jbd2,mbcache pre: crypto-crc32c built-in post: other"),
            ("crc32c_generic", ""),
            ("jbd2", "crc16,virtio_ring"),
            ("mbcache", ""),
            ("crc16", ""),
            ("virtio-blk", "virtio-ring"),
            ("other", "jbd2"),
        ] {
            fs::write(directory.join(format!("{name}.ko")), a_module(depends)).unwrap();
        }
        let kernel = kernel(top.path());
        let order = modules(&kernel, &["ext4", "virtio_blk", "virtio_ring"]).unwrap();
        let names: Vec<_> = order.iter().filter_map(|path| name_of(path)).collect();
        assert_eq!(names, ["crc32c_generic", "crc16", "jbd2", "mbcache", "ext4", "virtio_blk"]);
        let error = modules(&kernel, &["btrfs"]).unwrap_err().to_string();
        assert!(error.contains("no module btrfs") && error.contains("built without it"), "{error}");
    }

    #[test]
    fn what_comes_after_a_module_is_not_needed() {
        let found = parse("name: x\ndepends:        a,b-c\nsoftdep:        pre: d e post: f\n");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, Needs { needs: names(&["a", "b_c"]), requests: names(&["d", "e"]) });
        assert_eq!(parse("depends:\nsoftdep: post: x\n"), Needs::default());
    }

    proptest! {
        #[test]
        fn modinfo_may_print_anything(text in "(depends:|softdep:|pre:|post:|[a-z, \n]){0,40}") {
            let found = parse(&text);
            prop_assert!(found.needs.iter().all(|name| !name.contains(',')));
        }
    }

    #[test]
    fn without_modules_the_error_names_the_command_that_fetches_them() {
        let top = tempfile::tempdir().unwrap();
        let error = modules(&kernel(top.path()), &["ext4"]).unwrap_err().to_string();
        assert!(error.contains("tek lab fetch --modules"), "{error}");
    }

    #[test]
    fn a_modules_file_may_be_compressed() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("kernel/a/virtio-blk.ko.xz").as_deref(), Some("virtio_blk"));
        assert_eq!(name("ext4.ko").as_deref(), Some("ext4"));
        assert_eq!(name("ext4.koala"), None);
        assert_eq!(name("modules.builtin"), None);
    }
}
