// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that a program needs to start: its dynamic loader, and its shared libraries.
use goblin::elf::{header, Elf};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Why the needs of a program are unknown or cannot be met.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read.
    #[error("cannot read {path}: {error}", path = .0.display(), error = .1)]
    Read(PathBuf, io::Error),
    /// A library that is in no directory.
    #[error(
        "{program} needs {library}, which is in none of the directories of libraries{hint}",
        program = .program.display()
    )]
    Missing {
        /// The file that needs it.
        program: PathBuf,
        /// Its name.
        library: String,
        /// The cure.
        hint: &'static str,
    },
}

/// A library, or a loader, that is needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Library {
    /// The file of this machine.
    pub file: PathBuf,
    /// Where the guest's loader finds it.
    pub place: PathBuf,
}

/// The class and machine of an ELF file: all that it is linked with has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kin {
    machine: u16,
    wide: bool,
}

/// The fields of interest in an ELF file.
struct Needs {
    kin: Kin,
    loader: Option<PathBuf>,
    libraries: Vec<String>,
    /// Directories that are searched first: RUNPATH, or of old RPATH, with $ORIGIN.
    paths: Vec<String>,
}

/// A directory of libraries: here, and in the guest.
#[derive(Clone, Debug)]
struct Directory {
    here: PathBuf,
    there: PathBuf,
}

/// Finds libraries, for any number of programs; each is returned once.
pub struct Finder {
    sysroot: PathBuf,
    directories: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    /// Results by file: most programs need the same few libraries.
    read: HashMap<PathBuf, Option<Rc<Needs>>>,
}

impl Finder {
    /// Searches the directories of the machine's own loader, or a directory that is laid out as
    /// another machine's root.
    pub fn new(sysroot: Option<&Path>) -> Self {
        let sysroot = sysroot.unwrap_or(Path::new("/")).to_owned();
        let mut directories = Vec::new();
        configured(&sysroot, Path::new("/etc/ld.so.conf"), 0, &mut directories);
        for machine in
            ["x86_64-linux-gnu", "i386-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf"]
        {
            directories.push(Path::new("/lib").join(machine));
            directories.push(Path::new("/usr/lib").join(machine));
        }
        let plain = ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/lib32", "/usr/lib32"];
        directories.extend(plain.map(PathBuf::from));
        Self { sysroot, directories, seen: HashSet::new(), read: HashMap::new() }
    }

    /// The needs of a file at that place in the guest that were not returned before; none, if it is
    /// no ELF file.
    pub fn needs_of(&mut self, file: &Path, place: &Path) -> Result<Vec<Library>, Error> {
        let mut found = Vec::new();
        let program = Library { file: file.to_owned(), place: place.to_owned() };
        let mut open = vec![(program, Vec::new())];
        while let Some((program, inherited)) = open.pop() {
            let Some(needs) = self.read(&program.file)? else { continue };
            // The loader also searches the program's directories for a library's needs (RPATH).
            let mut paths = self.expand(&needs.paths, &program);
            paths.extend(inherited);
            let mut libraries: Vec<Library> = Vec::new();
            if let Some(loader) = &needs.loader {
                let loader = Library { file: self.here(loader), place: loader.clone() };
                if !loader.file.exists() {
                    return Err(self.missing(&program.file, &loader.place.to_string_lossy()));
                }
                libraries.push(loader);
            }
            for name in &needs.libraries {
                let library = self.find(name, needs.kin, &paths);
                libraries.push(library.ok_or_else(|| self.missing(&program.file, name))?);
            }
            if needs.libraries.iter().any(|name| name == "libc.so.6") {
                // The C library itself loads it when a thread is cancelled.
                libraries.extend(self.find("libgcc_s.so.1", needs.kin, &[]));
            }
            for library in libraries {
                if self.seen.insert(library.place.clone()) {
                    open.push((library.clone(), paths.clone()));
                    found.push(library);
                }
            }
        }
        Ok(found)
    }

    fn expand(&self, paths: &[String], program: &Library) -> Vec<Directory> {
        let expand = |path: &String| {
            let of = |origin: &Path| {
                let origin = origin.parent().unwrap_or(Path::new("/")).to_string_lossy();
                PathBuf::from(path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &origin))
            };
            let (here, there) = (of(&program.file), of(&program.place));
            // A path in a program that was built here names this machine's own directory.
            let below = Directory { here: self.here(&there), there: there.clone() };
            [Directory { here, there }, below]
        };
        paths.iter().flat_map(expand).collect()
    }

    fn missing(&self, program: &Path, library: &str) -> Error {
        let hint = if self.sysroot == Path::new("/") {
            "; install its package"
        } else {
            " below the sysroot; add its package there"
        };
        Error::Missing { program: program.to_owned(), library: library.to_owned(), hint }
    }

    fn here(&self, path: &Path) -> PathBuf {
        self.sysroot.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn find(&mut self, name: &str, kin: Kin, paths: &[Directory]) -> Option<Library> {
        let mut candidates = Vec::new();
        if name.contains('/') {
            let file = self.here(Path::new(name));
            candidates.push(Library { file, place: name.into() });
        } else {
            candidates.extend(paths.iter().map(|directory| Library {
                file: directory.here.join(name),
                place: directory.there.join(name),
            }));
            candidates.extend(self.directories.iter().map(|directory| {
                let path = directory.join(name);
                Library { file: self.here(&path), place: kin.usual(path) }
            }));
        }
        candidates.into_iter().find(|candidate| self.is_kin(&candidate.file, kin))
    }

    fn is_kin(&mut self, file: &Path, kin: Kin) -> bool {
        matches!(self.read(file), Ok(Some(it)) if it.kin == kin)
    }

    /// As [`read`], once for each file.
    fn read(&mut self, file: &Path) -> Result<Option<Rc<Needs>>, Error> {
        if let Some(known) = self.read.get(file) {
            return Ok(known.clone());
        }
        let needs = read(file)?.map(Rc::new);
        self.read.insert(file.to_owned(), needs.clone());
        Ok(needs)
    }
}

impl Kin {
    /// A path that the loader searches without its cache of configured directories.
    fn usual(self, path: PathBuf) -> PathBuf {
        let directory = match (self.machine, self.wide) {
            (header::EM_X86_64, true) => "/usr/lib/x86_64-linux-gnu",
            (header::EM_386, _) => "/usr/lib/i386-linux-gnu",
            (header::EM_AARCH64, _) => "/usr/lib/aarch64-linux-gnu",
            (header::EM_ARM, _) => "/usr/lib/arm-linux-gnueabihf",
            _ => return path,
        };
        Path::new(directory).join(path.file_name().unwrap_or_default())
    }
}

/// The directories that an ld.so.conf names.
fn configured(sysroot: &Path, file: &Path, depth: u32, into: &mut Vec<PathBuf>) {
    let path = sysroot.join(file.strip_prefix("/").unwrap_or(file));
    let Ok(text) = std::fs::read_to_string(path) else { return };
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if let Some(pattern) = line.strip_prefix("include ") {
            let pattern = sysroot.join(pattern.trim().trim_start_matches('/'));
            let files = glob::glob(&pattern.to_string_lossy()).into_iter().flatten().flatten();
            for file in files.filter(|_| depth < 8) {
                let file = Path::new("/").join(file.strip_prefix(sysroot).unwrap_or(&file));
                configured(sysroot, &file, depth + 1, into);
            }
        } else if line.starts_with('/') {
            into.push(line.into());
        }
    }
}

/// The needs of a file; `None`, if it is no ELF file of Linux programs.
fn read(path: &Path) -> Result<Option<Needs>, Error> {
    let unread = |error| Error::Read(path.to_owned(), error);
    let mut file = std::fs::File::open(path).map_err(unread)?;
    let mut magic = [0; 4];
    match io::Read::read_exact(&mut file, &mut magic) {
        Ok(()) if magic == *header::ELFMAG => {}
        Ok(()) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(unread(error)),
    }
    let bytes = std::fs::read(path).map_err(unread)?;
    let Ok(elf) = Elf::parse(&bytes) else { return Ok(None) };
    let listed = if elf.runpaths.is_empty() { &elf.rpaths } else { &elf.runpaths };
    let paths = listed.iter().flat_map(|list| list.split(':'));
    let paths = paths.filter(|path| !path.is_empty()).map(str::to_owned).collect();
    Ok(Some(Needs {
        kin: Kin { machine: elf.header.e_machine, wide: elf.is_64 },
        loader: elf.interpreter.map(PathBuf::from),
        libraries: elf.libraries.iter().map(ToString::to_string).collect(),
        paths,
    }))
}

#[cfg(test)]
mod tests {
    use super::{configured, Finder};
    use proptest::prelude::*;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn compile(directory: &Path, arguments: &[&str]) {
        let built = Command::new("cc").args(arguments).current_dir(directory).status().unwrap();
        assert!(built.success());
    }

    /// bin/program, which needs lib/liba.so, which needs lib/libb.so.
    fn project() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        for directory in ["bin", "lib"] {
            fs::create_dir(top.path().join(directory)).unwrap();
        }
        fs::write(top.path().join("b.c"), "int b(void) { return 0; }").unwrap();
        fs::write(top.path().join("a.c"), "int b(void); int a(void) { return b(); }").unwrap();
        fs::write(top.path().join("p.c"), "int a(void); int main(void) { return a(); }").unwrap();
        let library = ["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN"];
        compile(top.path(), &[&library[..], &["b.c", "-o", "lib/libb.so"]].concat());
        compile(
            top.path(),
            &[&library[..], &["a.c", "-o", "lib/liba.so", "-Llib", "-lb"]].concat(),
        );
        let program = ["p.c", "-o", "bin/program", "-Llib", "-la", "-Wl,-rpath,${ORIGIN}/../lib"];
        compile(top.path(), &[&program[..], &["-Wl,-rpath-link,lib"]].concat());
        top
    }

    /// The last components of where libraries lie in the guest.
    fn names(places: &[super::Library]) -> Vec<String> {
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        places.iter().map(|library| name(&library.place)).collect()
    }

    #[test]
    fn a_program_needs_its_loader_and_libraries_and_what_they_need() {
        let top = project();
        let mut finder = Finder::new(None);
        let program = top.path().join("bin/program");
        let found = finder.needs_of(&program, Path::new("/opt/bin/program")).unwrap();
        for name in ["liba.so", "libb.so", "libc.so.6", "libgcc_s.so.1"] {
            assert!(names(&found).contains(&name.into()), "{name} in {found:?}");
        }
        let a = found.iter().find(|library| library.file.ends_with("liba.so")).unwrap();
        assert_eq!(a.place.components().collect::<PathBuf>(), Path::new("/opt/bin/../lib/liba.so"));
        let loader = |name: &String| name.starts_with("ld-linux");
        assert!(names(&found).iter().any(loader), "{found:?}");
        assert_eq!(finder.needs_of(&program, Path::new("/opt/bin/program")).unwrap(), []);
    }

    #[test]
    fn what_is_known_of_a_library_is_not_read_again() {
        let top = project();
        let programs = ["program", "other"].map(|name| top.path().join("bin").join(name));
        fs::copy(&programs[0], &programs[1]).unwrap();
        let mut finder = Finder::new(None);
        assert!(!finder.needs_of(&programs[0], &programs[0]).unwrap().is_empty());
        fs::remove_dir_all(top.path().join("lib")).unwrap();
        assert_eq!(finder.needs_of(&programs[1], &programs[1]).unwrap(), []);
    }

    #[test]
    fn a_library_that_is_nowhere_is_named_with_what_needs_it() {
        let top = project();
        fs::remove_file(top.path().join("lib/libb.so")).unwrap();
        let program = top.path().join("bin/program");
        let error = Finder::new(None).needs_of(&program, &program).unwrap_err().to_string();
        assert!(error.contains("liba.so needs libb.so, which is in none"), "{error}");
        assert!(error.ends_with("install its package"), "{error}");
        let error = Finder::new(Some(top.path())).needs_of(&program, &program).unwrap_err();
        assert!(error.to_string().ends_with("add its package there"), "{error}");
    }

    #[test]
    fn what_is_no_program_needs_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in [("empty", &b""[..]), ("short", b"\x7fE"), ("cut", b"\x7fELF\x02\x01")]
        {
            let file = directory.path().join(name);
            fs::write(&file, bytes).unwrap();
            assert_eq!(Finder::new(None).needs_of(&file, &file).unwrap(), [], "{name}");
        }
    }

    #[test]
    fn configured_directories_may_be_in_included_files() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("etc/conf.d")).unwrap();
        let own = "include /etc/conf.d/*.conf\n/opt/a # why\n# no\n";
        fs::write(top.path().join("etc/ld.so.conf"), own).unwrap();
        fs::write(top.path().join("etc/conf.d/x.conf"), "/opt/b\ninclude /etc/ld.so.conf").unwrap();
        let mut found = Vec::new();
        configured(top.path(), Path::new("/etc/ld.so.conf"), 0, &mut found);
        found.dedup();
        assert_eq!(found.first().map(PathBuf::as_path), Some(Path::new("/opt/b")));
        assert!(found.contains(&"/opt/a".into()));
    }

    proptest! {
        #[test]
        fn a_damaged_program_is_no_reason_to_panic(
            at in 0usize..4096,
            byte: u8,
            cut in 0usize..16384,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut bytes = fs::read("/bin/true").unwrap();
            bytes.truncate(cut.max(at + 1));
            bytes[at] = byte;
            let file = directory.path().join("program");
            fs::write(&file, bytes).unwrap();
            let _ = Finder::new(None).needs_of(&file, &file);
        }
    }
}
