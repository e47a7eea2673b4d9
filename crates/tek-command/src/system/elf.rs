// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts in an ELF file.
use goblin::container::Ctx;
use goblin::elf::dynamic::{Dyn, DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRTAB};
use goblin::elf::header::{machine_to_str, ET_DYN};
use goblin::elf::program_header::{ProgramHeader, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_NOTE};
use scroll::Pread;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The facts that decide whether a library can be preloaded into a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    machine: Machine,
    position_independent: bool,
    /// Path of the dynamic loader (PT_INTERP) that the file requests.
    pub loader: Option<String>,
    /// Libraries that it needs (DT_NEEDED).
    pub needed: Vec<String>,
    /// The directories that are searched first for them (DT_RUNPATH, or DT_RPATH).
    pub search: Vec<String>,
    /// The owners of its notes: `GNU`, `Go`.
    note_owners: Vec<String>,
    name: Option<String>,
}

/// Processor, word size and byte order: a program and a preloaded library must agree in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    processor: u16,
    /// Word size.
    pub bits: u8,
    little_endian: bool,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bits)", machine_to_str(self.processor), self.bits)
    }
}

impl Elf {
    /// The machine for which it is built.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Its own name, if it is a library that has one (DT_SONAME).
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether it can be loaded beside a program.
    pub fn is_library(&self) -> bool {
        self.position_independent && (self.name.is_some() || self.loader.is_none())
    }

    /// Whether it runs without a dynamic loader, so that nothing can be preloaded. A loader itself,
    /// started as a program (`ld.so PROGRAM`), does preload.
    pub fn is_static(&self) -> bool {
        self.loader.is_none() && !self.is_loader()
    }

    /// Whether it is a dynamic loader.
    pub fn is_loader(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with("ld-"))
    }

    /// Whether one of its notes has this owner.
    pub fn has_note_of(&self, owner: &str) -> bool {
        self.note_owners.iter().any(|its| its == owner)
    }

    /// File name of its dynamic loader, which distinguishes C libraries.
    pub fn loader_name(&self) -> Option<&str> {
        self.loader.as_deref().and_then(|path| path.rsplit('/').next())
    }
}

/// Reads an ELF file's facts; `None` for a file of another kind, or an inconsistent one.
pub fn read(path: &Path) -> io::Result<Option<Elf>> {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    Ok(parse(|at, length| {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], at.checked_add(filled as u64)?).ok()? {
                0 => break,
                read => filled += read,
            }
        }
        bytes.truncate(filled);
        Some(bytes)
    }))
}

/// Whether a file calls one of these functions of its libraries. Reads the whole file.
pub fn calls_one_of(path: &Path, names: &[&str]) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    goblin::elf::Elf::parse(&bytes).is_ok_and(|elf| {
        let mut imported = elf.dynsyms.iter().filter(|symbol| symbol.is_import());
        imported.any(|symbol| {
            elf.dynstrtab.get_at(symbol.st_name).is_some_and(|name| names.contains(&name))
        })
    })
}

/// Whether a C library defines all versions of symbols (GLIBC_2.34) that a library needs of it.
/// Reads both files. An unreadable file counts as served.
pub fn serves(c_library: &Path, library: &Path) -> bool {
    let (Ok(theirs), Ok(ours)) = (std::fs::read(c_library), std::fs::read(library)) else {
        return true;
    };
    let parse = goblin::elf::Elf::parse;
    let (Ok(theirs), Ok(ours)) = (parse(&theirs), parse(&ours)) else { return true };
    let name = c_library.file_name().unwrap_or_default();
    let defined: Vec<&str> = theirs
        .verdef
        .iter()
        .flatten()
        .filter_map(|version| theirs.dynstrtab.get_at(version.iter().next()?.vda_name))
        .collect();
    let of_it = |need: &goblin::elf::symver::Verneed<'_>| {
        ours.dynstrtab.get_at(need.vn_file).is_some_and(|file| name == file)
    };
    ours.verneed.iter().flatten().filter(of_it).all(|need| {
        need.iter().all(|version| {
            ours.dynstrtab.get_at(version.vna_name).is_none_or(|name| defined.contains(&name))
        })
    })
}

/// Longest accepted dynamic section, path of a loader, and name of a library.
const DYNAMIC_BYTES: usize = 1 << 16;
const NAME_BYTES: usize = 4096;

/// Takes the facts from a file, given a function that reads at most so many bytes at an offset.
/// Programs can be hundreds of megabytes long and devices small, so only the needed parts are read.
fn parse(read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Elf> {
    let header = goblin::elf::Elf::parse_header(&read(0, 64)?).ok()?;
    let context = Ctx::new(header.container().ok()?, header.endianness().ok()?);
    let count = usize::from(header.e_phnum);
    let table = read(header.e_phoff, count * ProgramHeader::size(context))?;
    let segments = ProgramHeader::parse(&table, 0, count, context).ok()?;
    let segment = |kind| segments.iter().find(|segment| segment.p_type == kind);
    let text = |at| {
        let bytes = read(at, NAME_BYTES)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };

    let mut entries = Vec::new();
    if let Some(dynamic) = segment(PT_DYNAMIC) {
        let bytes = read(dynamic.p_offset, (dynamic.p_filesz as usize).min(DYNAMIC_BYTES))?;
        let mut at = 0;
        while let Ok(entry) = bytes.gread_with::<Dyn>(&mut at, context) {
            if entry.d_tag == DT_NULL {
                break;
            }
            entries.push(entry);
        }
    }
    // The string table is given by its address in memory; a segment maps that to an offset in the
    // file.
    let strings = entries.iter().find(|entry| entry.d_tag == DT_STRTAB).and_then(|entry| {
        let loaded = segments.iter().filter(|segment| segment.p_type == PT_LOAD);
        let inside =
            |s: &&ProgramHeader| entry.d_val >= s.p_vaddr && entry.d_val - s.p_vaddr < s.p_filesz;
        let segment = loaded.into_iter().find(inside)?;
        segment.p_offset.checked_add(entry.d_val - segment.p_vaddr)
    });
    let texts = |tag| {
        let wanted = entries.iter().filter(move |entry| entry.d_tag == tag);
        wanted.filter_map(|entry| text(strings?.checked_add(entry.d_val)?))
    };
    Some(Elf {
        machine: Machine {
            processor: header.e_machine,
            bits: if context.is_big() { 64 } else { 32 },
            little_endian: context.is_little_endian(),
        },
        position_independent: header.e_type == ET_DYN,
        loader: segment(PT_INTERP).and_then(|segment| text(segment.p_offset)),
        needed: texts(DT_NEEDED).collect(),
        search: texts(DT_RUNPATH)
            .chain(texts(DT_RPATH))
            .next()
            .map(|list| list.split(':').map(str::to_owned).collect())
            .unwrap_or_default(),
        note_owners: segments
            .iter()
            .filter(|segment| segment.p_type == PT_NOTE)
            .filter_map(|segment| {
                read(segment.p_offset, (segment.p_filesz as usize).min(DYNAMIC_BYTES))
            })
            .flat_map(|notes| owners_of(&notes, context))
            .collect(),
        name: texts(DT_SONAME).next(),
    })
}

/// The owners of the notes of a segment.
fn owners_of(mut notes: &[u8], context: Ctx) -> Vec<String> {
    let mut owners = Vec::new();
    loop {
        let mut at = 0;
        let mut word =
            || notes.gread_with::<u32>(&mut at, context.le).ok().map(|word| word as usize);
        let (Some(name), Some(text), Some(_)) = (word(), word(), word()) else { return owners };
        let behind = &notes[at..];
        if let Some(end) = behind.iter().take(name).position(|&byte| byte == 0) {
            // Some count the padding up to a multiple of 4.
            if name <= (end + 1).next_multiple_of(4) {
                owners.push(String::from_utf8_lossy(&behind[..end]).into_owned());
            }
        }
        let next = name.next_multiple_of(4).checked_add(text.next_multiple_of(4));
        let Some(rest) = next.and_then(|next| behind.get(next..)) else { return owners };
        notes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_test_is_an_ordinary_dynamic_program() {
        let own = read(Path::new("/proc/self/exe")).unwrap().unwrap();
        assert!(!own.is_static());
        assert!(own.needed.iter().any(|library| library.starts_with("libc.")));
        assert_eq!(own.machine().bits, usize::BITS as u8);
    }

    #[test]
    fn text_and_directories_are_no_elf_files() {
        assert_eq!(read(Path::new(file!())).ok().flatten(), None);
        assert_eq!(read(Path::new("/")).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_damage_makes_the_reader_panic(
            at in 0usize..4096, noise in proptest::collection::vec(any::<u8>(), 1..64),
            length in 0usize..100_000,
        ) {
            let length = length.max(at + noise.len());
            let mut bytes = vec![0; length];
            File::open("/proc/self/exe").unwrap().read_exact_at(&mut bytes, 0).unwrap();
            bytes[at..at + noise.len()].copy_from_slice(&noise);
            let _ = parse(|at, length| {
                let rest = bytes.get(usize::try_from(at).ok()?..)?;
                Some(rest[..length.min(rest.len())].to_vec())
            });
        }
    }
}
