// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

/// Opcodes from 13 on are special ones: lines from -3, in a range of 12.
const BASE: u8 = 13;

/// An opcode that goes on by so many bytes and lines, and makes a row.
fn special(bytes: u8, lines: i8) -> u8 {
    (lines + 3) as u8 + 12 * bytes + BASE
}

fn wide(number: u64) -> [u8; 8] {
    number.to_ne_bytes()
}

/// A unit of the section with these tables of names and this program.
fn unit(version: u16, names: &[u8], program: &[u8]) -> Vec<u8> {
    let operations: &[u8] = if version >= 4 { &[1] } else { &[] };
    let lengths = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    let head = [&[1], operations, &[1, -3i8 as u8, 12, BASE], &lengths, names].concat();
    let sizes: &[u8] = if version == 5 { &[8, 0] } else { &[] };
    let length = (head.len() as u32).to_ne_bytes();
    let rest = [&version.to_ne_bytes(), sizes, &length, &head, program].concat();
    [&(rest.len() as u32).to_ne_bytes(), &rest[..]].concat()
}

/// Two rows, of the lines 7 and 9, from this address on, and their end 8 bytes behind it.
fn program(address: u64, file: u8) -> Vec<u8> {
    let begin = [&[0, 9, 2], &wide(address)[..], &[4, file]].concat();
    // Line 7 by DW_LNS_advance_line, a row by DW_LNS_copy; 4 bytes on, the end by DW_LNE.
    [&begin[..], &[3, 6, 1, special(4, 2), 2, 4, 0, 1, 1]].concat()
}

/// The names `src/a.c` and `b.c`, for versions to 4: one directory.
const OLD: &[u8] = b"src\0\0src/a.c\0\x01\x02\x03b.c\0\x00\x00\x00\0";

/// The same for version 5: by a string, with an MD5; the first name has the number 0.
fn new() -> Vec<u8> {
    let directories = b"\x01\x01\x08\x01src\0";
    let formats = [3, 1, 0x08, 2, 0x0b, 5, 0x1e, 2];
    let md5 = [7; 16];
    [&directories[..], &formats, b"src/a.c\0\0", &md5, b"b.c\0\0", &md5].concat()
}

fn lines(units: &[Vec<u8>]) -> Lines {
    Lines {
        lines: units.concat(),
        strings: Vec::new(),
        line_strings: b"??x/y.c\0".to_vec(),
        word_bytes: 8,
    }
}

fn at(lines: &Lines, address: u64) -> Option<(String, u64)> {
    lines.at(address).map(|line| (String::from_utf8(line.file).unwrap(), line.number))
}

#[test]
fn an_address_has_the_line_of_the_row_before_it_in_each_version() {
    for version in 2..=4 {
        let lines =
            lines(&[unit(3, OLD, &program(0x500, 1)), unit(version, OLD, &program(0x100, 2))]);
        let of = |address| at(&lines, address);
        assert_eq!(of(0x100), Some(("b.c".into(), 7)), "{version}");
        assert_eq!(of(0x103), Some(("b.c".into(), 7)), "{version}");
        assert_eq!(of(0x104), Some(("b.c".into(), 9)), "{version}");
        assert_eq!((of(0xff), of(0x108)), (None, None), "{version}");
        assert_eq!(of(0x501), Some(("a.c".into(), 7)));
    }
    let lines = lines(&[unit(5, &new(), &program(0x100, 1))]);
    assert_eq!(at(&lines, 0x107), Some(("b.c".into(), 9)));
}

#[test]
fn a_name_can_lie_in_another_section() {
    let directories = b"\x01\x01\x08\x01src\0";
    let names = [&directories[..], &[1, 1, 0x1f, 1], &2u32.to_ne_bytes()].concat();
    let lines = lines(&[unit(5, &names, &program(0x100, 0))]);
    assert_eq!(at(&lines, 0x100), Some(("y.c".into(), 7)));
}

#[test]
fn rows_of_a_function_that_the_linker_removed_and_unknown_versions_do_not_count() {
    let removed = unit(4, OLD, &program(0, 1));
    let unknown = unit(6, OLD, &program(0x100, 1));
    let good = unit(4, OLD, &program(0x100, 2));
    let lines = lines(&[removed, unknown, good]);
    assert_eq!(at(&lines, 2), None);
    assert_eq!(at(&lines, 0x100), Some(("b.c".into(), 7)));
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        length in any::<prop::sample::Index>(),
        address in 0u64..0x600,
    ) {
        let mut bytes =
            [unit(4, OLD, &program(0x500, 1)), unit(5, &new(), &program(0x100, 1))].concat();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(length.index(bytes.len() + 1));
        lines(&[bytes]).at(address);
    }
}
