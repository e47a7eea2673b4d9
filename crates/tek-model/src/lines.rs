// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of source for addresses of a file: the section `.debug_line` of DWARF 2 to 5.
//!
//! As the file may be forged, each number in it is checked, and each loop consumes bytes. Sections
//! that are compressed, or lie in a file of their own, are not read.
use crate::elf::Sections;

/// Longest name of a file that is accepted.
const NAME_BYTES: usize = 4096;

/// What the sections of a file say about lines.
pub(crate) struct Lines {
    lines: Vec<u8>,
    strings: Vec<u8>,
    line_strings: Vec<u8>,
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
        Some(Self { lines, strings, line_strings })
    }

    /// The line of the instruction that has this byte.
    pub fn at(&self, address: u64) -> Option<Line> {
        let mut rest = Bytes { bytes: &self.lines, is_wide: false };
        while let Some(mut unit) = rest.unit() {
            if let Some(line) = self.in_unit(&mut unit, address) {
                return Some(line);
            }
        }
        None
    }

    fn in_unit(&self, unit: &mut Bytes<'_>, address: u64) -> Option<Line> {
        let header = Header::take(unit)?;
        let (file, number) = header.find(unit, address)?;
        let name = match header.version {
            ..=4 => header.names.clone().old_name(file),
            _ => self.new_name(header.names.clone(), file),
        }?;
        let name = name.rsplit(|&byte| byte == b'/').next()?.to_vec();
        Some(Line { file: name, number })
    }

    /// The name of a file by its number, in version 5.
    fn new_name<'a>(&'a self, mut table: Bytes<'a>, wanted: u64) -> Option<&'a [u8]> {
        // The directories come first.
        for is_files in [false, true] {
            let formats = (0..table.byte()?)
                .map(|_| Some((table.number()?, table.number()?)))
                .collect::<Option<Vec<_>>>()?;
            for number in 0..table.number()? {
                if formats.is_empty() {
                    break;
                }
                let mut name = None;
                for &(content, form) in &formats {
                    let value = self.value(&mut table, form)?;
                    name = if content == content::PATH { value } else { name };
                }
                if is_files && number == wanted {
                    return name;
                }
            }
        }
        None
    }

    /// Takes a value of a form; the outer `None`: the form is not known. The inner one: it is no
    /// text.
    fn value<'a>(&'a self, table: &mut Bytes<'a>, form: u64) -> Option<Option<&'a [u8]>> {
        let bytes = match form {
            form::STRING => return table.text().map(Some),
            form::STRP => return Some(text_at(&self.strings, table.offset()?)),
            form::LINE_STRP => return Some(text_at(&self.line_strings, table.offset()?)),
            form::UDATA => return table.number().map(|_| None),
            form::BLOCK => usize::try_from(table.number()?).ok()?,
            form::DATA1 => 1,
            form::DATA2 => 2,
            form::DATA4 => 4,
            form::DATA8 => 8,
            form::DATA16 => 16,
            _ => return None,
        };
        table.take(bytes).map(|_| None)
    }
}

/// DW_LNCT_*.
mod content {
    pub const PATH: u64 = 1;
}

/// DW_FORM_*.
mod form {
    pub const DATA2: u64 = 0x05;
    pub const DATA4: u64 = 0x06;
    pub const DATA8: u64 = 0x07;
    pub const STRING: u64 = 0x08;
    pub const BLOCK: u64 = 0x09;
    pub const DATA1: u64 = 0x0b;
    pub const STRP: u64 = 0x0e;
    pub const UDATA: u64 = 0x0f;
    pub const DATA16: u64 = 0x1e;
    pub const LINE_STRP: u64 = 0x1f;
}

fn text_at(bytes: &[u8], at: u64) -> Option<&[u8]> {
    Bytes { bytes: bytes.get(usize::try_from(at).ok()?..)?, is_wide: false }.text()
}

/// The header of a unit. What follows it is the program.
struct Header<'a> {
    version: u16,
    instruction: u64,
    line_base: i8,
    line_range: u8,
    opcode_base: u8,
    lengths: &'a [u8],
    names: Bytes<'a>,
}

impl<'a> Header<'a> {
    fn take(unit: &mut Bytes<'a>) -> Option<Self> {
        let version = unit.short()?;
        if !(2..=5).contains(&version) {
            return None;
        }
        if version == 5 {
            unit.take(2)?; // the sizes of an address and of a segment
        }
        let length = usize::try_from(unit.offset()?).ok()?;
        let mut header = Bytes { bytes: unit.take(length)?, is_wide: unit.is_wide };
        let instruction = header.byte()?.into();
        if version >= 4 {
            header.byte()?; // operations of an instruction: only VLIW processors have several
        }
        header.byte()?; // whether lines are statements at first
        let line_base = header.byte()? as i8;
        let line_range = header.byte()?;
        let opcode_base = header.byte()?;
        let lengths = header.take(usize::from(opcode_base.checked_sub(1)?))?;
        (line_range != 0).then_some(())?;
        let names = header;
        Some(Self { version, instruction, line_base, line_range, opcode_base, lengths, names })
    }

    /// Runs the program up to the row of an address: number of the file, and line.
    fn find(&self, program: &mut Bytes<'_>, wanted: u64) -> Option<(u64, u64)> {
        let (mut row, mut before, mut is_removed) = (Row::default(), None::<Row>, false);
        while !program.bytes.is_empty() {
            let Some(step) = self.step(&mut row, program)? else { continue };
            // The linker leaves the rows of a function that it removed, at address 0.
            is_removed = before.map_or(row.address == 0, |_| is_removed);
            let found = before.filter(|before| (before.address..row.address).contains(&wanted));
            if let Some(found) = found.filter(|found| found.line != 0 && !is_removed) {
                return Some((found.file, found.line));
            }
            before = (step == Step::Row).then_some(row);
            if step == Step::End {
                row = Row::default();
            }
        }
        None
    }

    /// An instruction; `None`: the program is damaged.
    fn step(&self, row: &mut Row, program: &mut Bytes<'_>) -> Option<Option<Step>> {
        let opcode = program.byte()?;
        if let Some(special) = opcode.checked_sub(self.opcode_base) {
            self.advance(row, special);
            let by = i64::from(self.line_base) + i64::from(special % self.line_range);
            row.line = row.line.wrapping_add_signed(by);
            return Some(Some(Step::Row));
        }
        match opcode {
            0 => return self.extended(row, program),
            1 => return Some(Some(Step::Row)),
            2 => row.skip(program.number()?.wrapping_mul(self.instruction)),
            3 => row.line = row.line.wrapping_add_signed(program.signed()?),
            4 => row.file = program.number()?,
            8 => self.advance(row, 255 - self.opcode_base),
            9 => row.skip(program.short()?.into()),
            _ => {
                for _ in 0..*self.lengths.get(usize::from(opcode) - 1)? {
                    program.number()?;
                }
            }
        }
        Some(None)
    }

    fn advance(&self, row: &mut Row, special: u8) {
        row.skip(u64::from(special / self.line_range).wrapping_mul(self.instruction));
    }

    fn extended(&self, row: &mut Row, program: &mut Bytes<'_>) -> Option<Option<Step>> {
        let length = usize::try_from(program.number()?).ok()?;
        let mut rest = Bytes { bytes: program.take(length)?, is_wide: false };
        match rest.byte()? {
            1 => return Some(Some(Step::End)),
            2 => {
                row.address = match rest.bytes.len() {
                    4 => u32::from_ne_bytes(rest.bytes.try_into().ok()?).into(),
                    8 => u64::from_ne_bytes(rest.bytes.try_into().ok()?),
                    _ => return None,
                }
            }
            _ => {}
        }
        Some(None)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A row of the table is complete.
    Row,
    /// It is the last one of a sequence, and has only an address.
    End,
}

#[derive(Clone, Copy)]
struct Row {
    address: u64,
    file: u64,
    line: u64,
}

impl Default for Row {
    fn default() -> Self {
        Self { address: 0, file: 1, line: 1 }
    }
}

impl Row {
    fn skip(&mut self, bytes: u64) {
        self.address = self.address.wrapping_add(bytes);
    }
}

/// Bytes that are being read, in the byte order of this machine.
#[derive(Clone)]
struct Bytes<'a> {
    bytes: &'a [u8],
    /// Whether offsets have 8 bytes (DWARF of 64 bits) instead of 4.
    is_wide: bool,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.take(2)?.try_into().ok()?))
    }

    fn offset(&mut self) -> Option<u64> {
        if self.is_wide {
            return Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?));
        }
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?).into())
    }

    /// A unit of the section, behind its length.
    fn unit(&mut self) -> Option<Self> {
        const WIDE: u64 = 0xffff_ffff;
        let mut length = Self { is_wide: false, ..*self }.offset()?;
        self.take(4)?;
        let is_wide = length == WIDE;
        if is_wide {
            length = u64::from_ne_bytes(self.take(8)?.try_into().ok()?);
        }
        Some(Self { bytes: self.take(usize::try_from(length).ok()?)?, is_wide })
    }

    /// ULEB128.
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// SLEB128.
    fn signed(&mut self) -> Option<i64> {
        let (mut number, mut shift) = (0i64, 0u32);
        loop {
            let byte = self.byte()?;
            number |= i64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let sign = (-1i64).checked_shl(shift).unwrap_or(0);
                return Some(if byte & 0x40 != 0 { number | sign } else { number });
            }
        }
    }

    /// Up to a NUL, without it.
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().take(NAME_BYTES).position(|&byte| byte == 0)?;
        let taken = self.take(end + 1)?;
        Some(&taken[..end])
    }

    /// The name of a file by its number, from 1, in versions 2 to 4.
    fn old_name(mut self, wanted: u64) -> Option<&'a [u8]> {
        while !self.text()?.is_empty() {} // directories
        for number in 1.. {
            let name = self.text().filter(|name| !name.is_empty())?;
            for _ in 0..3 {
                self.number()?;
            }
            if number == wanted {
                return Some(name);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
