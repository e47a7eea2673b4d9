// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of source for addresses of a file: the section `.debug_line` of DWARF 2 to 5.
//!
//! Sections that are compressed, or lie in a file of their own, are not read. The file may be
//! forged: a damaged unit has no lines.
use crate::elf::Sections;
use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, EndianSlice,
    IncompleteLineProgram, NativeEndian, Reader,
};

type Slice<'a> = EndianSlice<'a, NativeEndian>;

/// What the sections of a file say about lines.
pub(crate) struct Lines {
    lines: Vec<u8>,
    strings: Vec<u8>,
    line_strings: Vec<u8>,
    /// Size of an address: only version 5 has it in this section.
    word_bytes: u8,
}

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The file's name without its directory. Any bytes.
    pub file: Vec<u8>,
    pub number: u64,
}

impl Lines {
    /// `None`: the file has no lines.
    pub fn read(sections: &mut Sections<'_>) -> Option<Self> {
        let lines = sections.named(b".debug_line")?;
        let strings = sections.named(b".debug_str").unwrap_or_default();
        let line_strings = sections.named(b".debug_line_str").unwrap_or_default();
        Some(Self { lines, strings, line_strings, word_bytes: sections.word_bytes() })
    }

    /// The line of the instruction that has this byte.
    pub fn at(&self, address: u64) -> Option<Line> {
        let section = DebugLine::new(&self.lines, NativeEndian);
        let mut rest = Slice::new(&self.lines, NativeEndian);
        while !rest.is_empty() {
            let at = DebugLineOffset(self.lines.len() - rest.len());
            // The next unit, also behind one of a version that is not known.
            let (length, _) = rest.read_initial_length().ok()?;
            rest.skip(length).ok()?;
            let unit = section.program(at, self.word_bytes, None, None);
            if let Some(line) = unit.ok().and_then(|unit| self.in_unit(unit, address)) {
                return Some(line);
            }
        }
        None
    }

    fn in_unit(&self, unit: IncompleteLineProgram<Slice<'_>>, wanted: u64) -> Option<Line> {
        let mut rows = unit.rows();
        let (mut before, mut is_removed) = (None, false);
        while let Some((header, row)) = rows.next_row().ok()? {
            // The linker leaves the rows of a function that it removed, at address 0.
            is_removed = before.map_or(row.address() == 0, |_| is_removed);
            let of_row = |&(address, ..): &(u64, _, _)| (address..row.address()).contains(&wanted);
            if let Some((_, file, Some(number))) = before.filter(of_row).filter(|_| !is_removed) {
                return Some(Line { file: self.name(header.file(file)?.path_name())?, number });
            }
            let this = (row.address(), row.file_index(), row.line().map(u64::from));
            before = (!row.end_sequence()).then_some(this);
        }
        None
    }

    /// The last part of a file's name.
    fn name(&self, path: AttributeValue<Slice<'_>>) -> Option<Vec<u8>> {
        let path = match path {
            AttributeValue::String(path) => path.slice(),
            AttributeValue::DebugStrRef(at) => {
                DebugStr::new(&self.strings, NativeEndian).get_str(at).ok()?.slice()
            }
            AttributeValue::DebugLineStrRef(at) => {
                DebugLineStr::new(&self.line_strings, NativeEndian).get_str(at).ok()?.slice()
            }
            _ => return None,
        };
        Some(path.rsplit(|&byte| byte == b'/').next()?.to_vec())
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
