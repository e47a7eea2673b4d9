// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols of an ELF file.
//!
//! The path may come from a forged table. So only regular files are opened, and only the necessary
//! parts are read, within a number of bytes. Programs can be hundreds of megabytes long.
use goblin::container::Ctx;
use goblin::elf::note::{NoteDataIterator, NT_GNU_BUILD_ID};
use goblin::elf::program_header::{ProgramHeader, PT_NOTE};
use goblin::elf::section_header::{
    SectionHeader, SHF_COMPRESSED, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB,
};
use goblin::elf::sym::{Symtab, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT};
use goblin::elf::Header;
use nix::fcntl::{open, OFlag};
use nix::sys::stat::{fstat, Mode, SFlag};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Longest name that is accepted; C++ has long ones.
const NAME_BYTES: usize = 4096;

/// An ELF file's symbols.
pub(crate) struct Elf {
    /// Its NT_GNU_BUILD_ID; empty when it has none.
    pub build_id: Vec<u8>,
    /// Size of a word of its programs, by its class.
    pub word_bytes: u64,
    /// Sorted by address.
    symbols: Vec<Symbol>,
    /// The string tables.
    names: Vec<Vec<u8>>,
}

/// A function or an object.
struct Symbol {
    address: u64,
    bytes: u64,
    table: usize,
    name: usize,
}

impl Elf {
    /// Reads a file, but at most `budget` bytes, which it subtracts from `budget`; symbols beyond
    /// that are missing. `None` if it is no ELF file or is invalid.
    pub fn read(path: &Path, budget: &mut u64) -> Option<Self> {
        let mut file = Bounded::open(path, budget)?;
        parse(&mut |at, bytes| file.read(at, bytes))
    }

    /// The names of all symbols.
    pub fn defined(&self) -> impl Iterator<Item = &[u8]> {
        self.symbols.iter().filter_map(|symbol| self.name_of(symbol))
    }

    fn name_of(&self, symbol: &Symbol) -> Option<&[u8]> {
        let name = self.names[symbol.table].get(symbol.name..)?;
        let name = &name[..name.len().min(NAME_BYTES)];
        let end = name.iter().position(|&byte| byte == 0)?;
        Some(&name[..end])
    }

    /// The name of the symbol at an address of the file, and the offset from its beginning.
    pub fn symbol_at(&self, address: u64) -> Option<(&[u8], u64)> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let nearest = self.symbols[..behind].last()?.address;
        // An address can have several names; the longest symbol is the most informative.
        let same = self.symbols[..behind].iter().rev().take_while(|s| s.address == nearest);
        let symbol = same.max_by_key(|symbol| symbol.bytes)?;
        let offset = address - symbol.address;
        if offset >= symbol.bytes.max(1) {
            return None;
        }
        let name = self.name_of(symbol)?;
        (!name.is_empty()).then_some((name, offset))
    }
}

#[cfg(test)]
impl Elf {
    /// Address of a symbol in the file.
    pub fn address_of(&self, name: &[u8]) -> Option<u64> {
        let mut addresses = self.symbols.iter().map(|symbol| symbol.address);
        addresses.find(|&address| self.symbol_at(address) == Some((name, 0)))
    }

    /// A file with one symbol, of 32 bytes.
    pub fn of(word_bytes: u64, address: u64, name: &[u8]) -> Self {
        let symbols = vec![Symbol { address, bytes: 32, table: 0, name: 0 }];
        Self { build_id: Vec::new(), word_bytes, symbols, names: vec![[name, b"\0"].concat()] }
    }
}

/// A file of which at most so many bytes are read.
struct Bounded<'a> {
    file: File,
    length: u64,
    budget: &'a mut u64,
}

impl<'a> Bounded<'a> {
    fn open(path: &Path, budget: &'a mut u64) -> Option<Self> {
        let file = open_regular(path)?;
        let length = file.metadata().ok()?.len();
        Some(Self { file, length, budget })
    }

    fn read(&mut self, at: u64, bytes: u64) -> Option<Vec<u8>> {
        at.checked_add(bytes).filter(|&end| end <= self.length)?;
        *self.budget = self.budget.checked_sub(bytes)?;
        let mut read = vec![0; usize::try_from(bytes).ok()?];
        self.file.read_exact_at(&mut read, at).ok()?;
        Some(read)
    }
}

/// The sections of a file, by name.
pub(crate) struct Sections<'a> {
    file: Bounded<'a>,
    all: Vec<SectionHeader>,
    names: Vec<u8>,
    word_bytes: u8,
}

impl<'a> Sections<'a> {
    /// Reads the headers; `budget` as for [`Elf::read`].
    pub fn open(path: &Path, budget: &'a mut u64) -> Option<Self> {
        let mut file = Bounded::open(path, budget)?;
        let header = goblin::elf::Elf::parse_header(&file.read(0, 64)?).ok()?;
        let context = Ctx::new(header.container().ok()?, header.endianness().ok()?);
        let all = sections(&mut |at, bytes| file.read(at, bytes), &header, context)?;
        let names = all.get(usize::from(header.e_shstrndx))?;
        let names = file.read(names.sh_offset, names.sh_size)?;
        Some(Self { file, all, names, word_bytes: context.size() as u8 })
    }

    /// Size of a word of its programs, by its class.
    pub fn word_bytes(&self) -> u8 {
        self.word_bytes
    }

    /// The contents of a section; `None`: there is none of that name, or it is compressed.
    pub fn named(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let section = self.all.iter().find(|section| {
            let own = self.names.get(section.sh_name..).unwrap_or_default();
            own.split(|&byte| byte == 0).next() == Some(name)
        })?;
        let is_plain = section.sh_flags & u64::from(SHF_COMPRESSED) == 0;
        (is_plain && section.sh_type != SHT_NOBITS).then_some(())?;
        self.file.read(section.sh_offset, section.sh_size)
    }
}

/// Opens a file for reading if it is a regular one. No other file is opened: the open itself could
/// wait, or have an effect.
fn open_regular(path: &Path) -> Option<File> {
    let found = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let kind = SFlag::from_bits_truncate(fstat(&found).ok()?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG {
        return None;
    }
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    // O_NONBLOCK: the open must not wait for another process's lease either.
    OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(same).ok()
}

fn parse(read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>) -> Option<Elf> {
    let header = goblin::elf::Elf::parse_header(&read(0, 64)?).ok()?;
    let context = Ctx::new(header.container().ok()?, header.endianness().ok()?);
    let build_id = build_id(read, &header, context).unwrap_or_default();
    let word_bytes = context.size() as u64;
    let mut elf = Elf { build_id, word_bytes, symbols: Vec::new(), names: Vec::new() };
    let sections = sections(read, &header, context).unwrap_or_default();
    for section in &sections {
        if matches!(section.sh_type, SHT_SYMTAB | SHT_DYNSYM) {
            let strings = sections.get(section.sh_link as usize)?;
            let names = read(strings.sh_offset, strings.sh_size)?;
            let table = read(section.sh_offset, section.sh_size)?;
            elf.add(&table, names, context);
        }
    }
    tek_sort::by_key(&mut elf.symbols, |symbol| symbol.address);
    Some(elf)
}

impl Elf {
    fn add(&mut self, table: &[u8], names: Vec<u8>, context: Ctx) {
        let count = table.len() / goblin::elf::Sym::size(context.container);
        let Ok(symbols) = Symtab::parse(table, 0, count, context) else { return };
        let wanted = [STT_FUNC, STT_GNU_IFUNC, STT_OBJECT, STT_NOTYPE];
        let defined = symbols.iter().filter(|symbol| {
            symbol.st_value != 0 && symbol.st_shndx != 0 && wanted.contains(&symbol.st_type())
        });
        self.symbols.extend(defined.map(|symbol| Symbol {
            address: symbol.st_value,
            bytes: symbol.st_size,
            table: self.names.len(),
            name: symbol.st_name,
        }));
        self.names.push(names);
    }
}

fn sections(
    read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>,
    header: &Header,
    context: Ctx,
) -> Option<Vec<SectionHeader>> {
    let count = usize::from(header.e_shnum);
    let table = read(header.e_shoff, (count * SectionHeader::size(context)) as u64)?;
    SectionHeader::parse_from(&table, 0, count, context).ok()
}

fn build_id(
    read: &mut impl FnMut(u64, u64) -> Option<Vec<u8>>,
    header: &Header,
    context: Ctx,
) -> Option<Vec<u8>> {
    let count = usize::from(header.e_phnum);
    let table = read(header.e_phoff, (count * ProgramHeader::size(context)) as u64)?;
    let segments = ProgramHeader::parse(&table, 0, count, context).ok()?;
    segments.iter().filter(|segment| segment.p_type == PT_NOTE).find_map(|segment| {
        let data = read(segment.p_offset, segment.p_filesz)?;
        let alignment = usize::try_from(segment.p_align).ok()?;
        let mut notes = NoteDataIterator {
            data: &data,
            size: data.len(),
            offset: 0,
            ctx: (alignment, context),
        };
        let own = |note: &goblin::elf::note::Note| note.n_type == NT_GNU_BUILD_ID;
        Some(notes.find_map(|note| note.ok().filter(own))?.desc.to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET: u64 = 1 << 30;

    #[test]
    fn a_function_of_this_test_is_found_by_its_address() {
        let elf = Elf::read(Path::new("/proc/self/exe"), &mut BUDGET.clone()).unwrap();
        let main = elf.address_of(b"main").unwrap();
        assert_eq!(elf.symbol_at(main + 1), Some((&b"main"[..], 1)));
        assert_eq!(elf.symbol_at(1), None);
        assert!(!elf.build_id.is_empty());
    }

    #[test]
    fn what_is_no_elf_file_or_too_long_gives_no_symbols_and_a_fifo_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in [&fifo, Path::new("/"), Path::new("/dev/zero"), Path::new(file!())] {
            assert!(Elf::read(path, &mut BUDGET.clone()).is_none(), "{}", path.display());
        }
        let elf = Elf::read(Path::new("/proc/self/exe"), &mut 1000).unwrap();
        assert!(elf.symbols.is_empty());
    }

    #[test]
    fn the_class_of_a_file_gives_the_size_of_its_words() {
        for (class, word_bytes) in [(1, 4), (2, 8)] {
            let header = [b"\x7fELF", &[class, 1, 1][..], &[0; 57]].concat();
            let read = &mut |_, bytes| Some(header[..bytes as usize].to_vec());
            assert_eq!(parse(read).unwrap().word_bytes, word_bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]

        /// The structure is damaged: the headers and the tables of sections.
        #[test]
        fn no_damage_makes_the_reader_panic(
            damage in proptest::collection::vec((any::<bool>(), 0usize..4096, any::<u8>()), 1..40),
            address in any::<u64>(),
        ) {
            static FILE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let library = FILE.get_or_init(|| std::fs::read("/proc/self/exe").unwrap());
            let mut patches = std::collections::HashMap::new();
            for (at_end, at, byte) in damage {
                patches.insert(if at_end { library.len() - 1 - at } else { at }, byte);
            }
            let mut budget = BUDGET;
            let elf = parse(&mut |at, length| {
                budget = budget.checked_sub(length)?;
                let begin = usize::try_from(at).ok()?;
                let end = begin.checked_add(usize::try_from(length).ok()?)?;
                let mut bytes = library.get(begin..end)?.to_vec();
                for (&at, &byte) in patches.iter().filter(|(at, _)| (begin..end).contains(at)) {
                    bytes[at - begin] = byte;
                }
                Some(bytes)
            });
            if let Some(elf) = elf {
                let _ = elf.symbol_at(address);
            }
        }
    }
}
