// SPDX-License-Identifier: MIT OR Apache-2.0
//! Examines the program before it starts: can libtek.so be preloaded into it?
//!
//! The library examines the programs that the program starts later in the same way.
use super::c_library;
use crate::system::elf::{self, Elf, Machine};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tek_abi::options::Kind;
use tek_abi::targets::{self, disturbed, passed};

/// Interpreters of interpreters that the kernel follows.
const SCRIPT_DEPTH: usize = 5;

/// Why a program runs without TEK in it: one of `abi/tek_targets.h`, as in lib/exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    kind: Kind,
    forbids_preload: bool,
}

impl Reason {
    const fn passed(kind: Kind) -> Self {
        Self { kind, forbids_preload: false }
    }

    const fn disturbed(kind: Kind) -> Self {
        Self { kind, forbids_preload: true }
    }

    /// Whether the library would break or disturb the program, so that it must not be preloaded.
    pub fn forbids_preload(self) -> bool {
        self.forbids_preload
    }

    /// The reason, as the predicate of a sentence about the program.
    pub fn text(self) -> &'static str {
        self.kind.about
    }

    /// Whether it is a sanitizer that knows kernel threads only, or has an allocator of its own.
    pub fn is_sanitizer(self) -> bool {
        targets::SANITIZERS.contains(&self.kind)
    }
}

/// The findings about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The file that the kernel runs: for a script its interpreter.
    pub file: PathBuf,
    /// Why TEK does not cover it; `None`: it does.
    pub reason: Option<Reason>,
    /// Why it cannot be on user-level threads, although TEK could cover it.
    pub uthread_reason: Option<Reason>,
    /// The library that fits it by word size and processor; `None`: there is none.
    pub library: Option<PathBuf>,
    /// The machine for which it is built; `None`: unknown.
    pub machine: Option<Machine>,
    /// An interpreter or dynamic loader that the program needs and that does not exist.
    pub missing: Option<String>,
}

/// Examines a program as execvp(3) would find it; `None` when it is not found or cannot be
/// examined. `libraries` are those for one word size and the other.
pub fn examine(program: &OsStr, libraries: &[(PathBuf, Elf)]) -> Option<Target> {
    let mut file = find(program)?;
    for _ in 0..SCRIPT_DEPTH {
        let Some(interpreter) = interpreter_of(&file) else { break };
        let interpreter = PathBuf::from(interpreter);
        if !interpreter.exists() {
            let missing = Some(interpreter.display().to_string());
            return Some(Target {
                file,
                reason: None,
                uthread_reason: None,
                library: None,
                machine: None,
                missing,
            });
        }
        file = interpreter;
    }
    let elf = elf::read(&file).ok()??;
    let own = elf::read(Path::new("/proc/self/exe")).ok().flatten();
    let library = libraries.iter().find(|(_, library)| library.machine() == elf.machine());
    let same_bits = |(_, other): &(_, Elf)| other.machine().bits == elf.machine().bits;
    let reason = privilege(&file).or_else(|| match library {
        Some((path, _)) => reason(&file, &elf, own.as_ref(), path),
        None if libraries.iter().any(same_bits) => Some(Reason::disturbed(disturbed::PROCESSOR)),
        None => Some(Reason::disturbed(disturbed::WORD_SIZE)),
    });
    let library = library.map(|(path, _)| path.clone());
    let missing = elf.loader.clone().filter(|loader| !Path::new(loader).exists());
    let machine = Some(elf.machine());
    let uthread_reason = uthread_reason(&file, &elf);
    Some(Target { file, reason, uthread_reason, library, machine, missing })
}

/// The first of a list that a library's name begins with, if the program needs that library.
fn needed(elf: &Elf, list: &[Kind]) -> Option<Reason> {
    let is_needed = |kind: &&Kind| elf.needed.iter().any(|name| name.starts_with(kind.name));
    list.iter().find(is_needed).copied().map(Reason::disturbed)
}

/// The obstacle between a program that could have libtek.so and user-level threads.
fn uthread_reason(file: &Path, elf: &Elf) -> Option<Reason> {
    let library = needed(elf, &targets::SANITIZERS)
        .or_else(|| needed(elf, &targets::UTHREAD_LIBRARIES))
        .or_else(|| {
            let note = targets::UTHREAD_NOTES.into_iter().find(|note| elf.has_note_of(note.name));
            note.map(Reason::disturbed)
        });
    library.or_else(|| {
        let resolved = file.canonicalize().ok()?;
        let is_beside = |file: &Kind| resolved.with_file_name(file.name).exists();
        targets::UTHREAD_FILES.into_iter().find(is_beside).map(Reason::disturbed)
    })
}

/// The obstacle between a program and the library that is made for its processor.
fn reason(file: &Path, elf: &Elf, own: Option<&Elf>, library: &Path) -> Option<Reason> {
    if elf.is_static() {
        return Some(Reason::passed(passed::STATIC));
    }
    if let (Some(theirs), Some(own)) = (elf.loader_name(), own) {
        // The GNU C library's loader has another name for each word size.
        let same = if own.machine() == elf.machine() {
            own.loader_name().is_none_or(|ours| theirs == ours)
        } else {
            theirs.starts_with("ld-linux")
        };
        if !same {
            return Some(Reason::disturbed(disturbed::LIBC));
        }
    }
    if !c_library::serves(file, elf, own, library) {
        return Some(Reason::disturbed(disturbed::OLDER_LIBC));
    }
    needed(elf, &targets::FIRST_LIBRARIES)
}

/// The privilege that the program gains: the loader ignores LD_PRELOAD for it, whatever it is.
fn privilege(file: &Path) -> Option<Reason> {
    if gains_nothing(file) {
        return None;
    }
    let kind = set_id(file).or_else(|| has_capabilities(file).then_some(passed::CAPABILITIES));
    kind.map(Reason::passed)
}

/// Whether the kernel ignores set-id bits and capabilities of this file.
fn gains_nothing(file: &Path) -> bool {
    let no_new_privs =
        crate::system::line("/proc/self/status").is_some_and(|s| s.contains("\nNoNewPrivs:\t1"));
    no_new_privs
        || nix::sys::statvfs::statvfs(file)
            .is_ok_and(|fs| fs.flags().contains(nix::sys::statvfs::FsFlags::ST_NOSUID))
}

/// Set-id bits matter only if they change something: for root's own files they do not, to root.
fn set_id(file: &Path) -> Option<Kind> {
    let metadata = fs::metadata(file).ok()?;
    let mode = metadata.permissions().mode();
    if mode & 0o4000 != 0 && metadata.uid() != nix::unistd::getuid().as_raw() {
        return Some(passed::SET_USER_ID);
    }
    // Without group execution the bit means mandatory locking.
    let set_gid = mode & 0o2010 == 0o2010 && metadata.gid() != nix::unistd::getgid().as_raw();
    set_gid.then_some(passed::SET_GROUP_ID)
}

/// Root gains nothing from file capabilities, and so keeps its preloaded libraries.
fn has_capabilities(file: &Path) -> bool {
    if nix::unistd::getuid().is_root() {
        return false;
    }
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: two NUL-terminated strings; a length of 0 asks for the size only.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// The file that execvp(3) runs for a name.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| {
        let executable = |m: fs::Metadata| m.is_file() && m.permissions().mode() & 0o111 != 0;
        fs::metadata(file).is_ok_and(executable)
    })
}

/// The interpreter in a script's first line; the shell runs a script without one.
fn interpreter_of(file: &Path) -> Option<OsString> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut start = Vec::new();
    // The kernel reads no more than this either.
    File::open(file).ok()?.take(256).read_to_end(&mut start).ok()?;
    interpreter_in(&start)
}

fn interpreter_in(start: &[u8]) -> Option<OsString> {
    let Some(line) = start.strip_prefix(b"#!") else {
        return (!start.starts_with(b"\x7fELF")).then(|| "/bin/sh".into());
    };
    let line = line.split(|&byte| byte == b'\n').next()?;
    let begin = line.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let word = line[begin..].split(|byte| matches!(byte, b' ' | b'\t' | 0)).next()?;
    (!word.is_empty()).then(|| OsString::from_vec(word.to_vec()))
}

#[cfg(all(test, target_pointer_width = "64"))]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_run_by_the_interpreter_in_its_first_line() {
        let interpreter = |start: &[u8]| interpreter_in(start);
        assert_eq!(interpreter(b"#!/bin/bash\necho"), Some("/bin/bash".into()));
        assert_eq!(interpreter(b"#! \t/usr/bin/env -S python3"), Some("/usr/bin/env".into()));
        assert_eq!(interpreter(b"echo no line"), Some("/bin/sh".into()));
        assert_eq!(interpreter(b"#!\n"), None);
        assert_eq!(interpreter(b"\x7fELF..."), None);
    }

    #[test]
    fn an_ordinary_program_is_covered() {
        let own = elf::read(Path::new("/proc/self/exe")).unwrap().unwrap();
        let libraries = [("/lib/libtek.so".into(), own)];
        let target = examine(OsStr::new("sh"), &libraries).unwrap();
        assert_eq!((target.reason, target.missing), (None, None));
        assert_eq!(target.library, Some("/lib/libtek.so".into()));
        assert_eq!(examine(OsStr::new("no-such-program-anywhere"), &libraries), None);
    }
}
