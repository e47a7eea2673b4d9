// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles as text: tek-stack-profile(5). lib/stack/profile.c reads the same.
//!
//! An invalid line is skipped, and the other lines count: a profile may be damaged, written by
//! hand, or forged.
use crate::profile::{Key, Kind, Label, Place, Profile, MOST_KINDS};
use percent_encoding::percent_decode;
use std::fmt::Write;

/// Largest profile, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// Most problems of one profile that are reported.
const MOST_PROBLEMS: usize = 100;

/// Longest name of a function or file, in bytes: names are for users.
const NAME_BYTES: usize = 120;

const FIRST_LINE: &[u8] = b"tek-stack-profile 1";

/// Why bytes are no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Far too long.
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// Another kind of file.
    #[error("it does not begin with the line `tek-stack-profile 1`")]
    NoProfile,
    /// Of another version of TEK.
    #[error("it is a profile of version {0}, this tek reads version 1")]
    Version(String),
}

/// A problem of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Problem {
    /// Its number, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

/// A profile that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The data of the valid lines.
    pub profile: Profile,
    /// Some of the skipped lines, and why.
    pub problems: Vec<Problem>,
}

/// Reads a profile.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Error> {
    if bytes.len() > MOST_BYTES {
        return Err(Error::TooLarge);
    }
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().and_then(|line| line.strip_suffix(b"\n")).ok_or(Error::NoProfile)?;
    if first != FIRST_LINE {
        let version = first.strip_prefix(b"tek-stack-profile ").ok_or(Error::NoProfile)?;
        let version = String::from_utf8_lossy(&version[..version.len().min(20)]);
        return Err(Error::Version(version.into_owned()));
    }
    let mut parsed = Parsed::default();
    let mut kinds = 0;
    for (line, number) in lines.zip(2..) {
        let read = match line.strip_suffix(b"\n") {
            // The writer was stopped: even a number may lack its last digits.
            None => Err("it is cut short".to_owned()),
            Some(line) if line.is_empty() || line[0] == b'#' => continue,
            Some(line) => read_line(line, &mut parsed.profile, &mut kinds),
        };
        if let Err(what) = read {
            if parsed.problems.len() < MOST_PROBLEMS {
                parsed.problems.push(Problem { line: number, what });
            }
        }
    }
    Ok(parsed)
}

fn read_line(line: &[u8], profile: &mut Profile, kinds: &mut usize) -> Result<(), String> {
    if let Some(program) = line.strip_prefix(b"program ") {
        profile.program = String::from_utf8_lossy(&decode(program)?).into_owned();
        return Ok(());
    }
    let Some(fields) = line.strip_prefix(b"kind ") else {
        return Err("it begins with neither `program` nor `kind`".to_owned());
    };
    let (key, kind) = read_kind(fields)?;
    *kinds += 1;
    if *kinds > MOST_KINDS {
        return Err(format!("there are more than {MOST_KINDS} kinds"));
    }
    profile.add(key, &kind);
    Ok(())
}

fn read_kind(fields: &[u8]) -> Result<(Key, Kind), String> {
    let (mut function, mut caller, mut label) = (None, None, Label::None);
    let (mut bound, mut threads) = (None, None);
    let mut kind = Kind::default();
    let mut seen = Vec::new();
    for field in fields.split(|&byte| byte == b' ') {
        let equals = field.iter().position(|&byte| byte == b'=');
        let equals = equals.filter(|&at| at > 0).ok_or("fields are KEY=VALUE")?;
        let (name, value) = (&field[..equals], &field[equals + 1..]);
        // For reports: the library, which knows it of each thread itself, skips it.
        kind.explicit |= field == b"explicit=1";
        let known: &[&[u8]] = &[
            b"function",
            b"caller",
            b"label",
            b"bound",
            b"least",
            b"peak",
            b"stack",
            b"overflow",
            b"overflows",
            b"threads",
            b"runs",
            b"symbol",
            b"in",
            b"from",
        ];
        if !known.contains(&name) {
            continue;
        }
        let reported = String::from_utf8_lossy(name);
        if seen.contains(&name) {
            return Err(format!("{reported} is given twice"));
        }
        seen.push(name);
        let wrong = |what: String| format!("{reported}: {what}");
        match name {
            b"function" => function = Some(place(value).map_err(wrong)?),
            b"caller" if value == b"-" => {}
            b"caller" => caller = Some(place(value).map_err(wrong)?),
            b"label" => label = read_label(value).map_err(wrong)?,
            b"bound" => bound = Some(number(value).map_err(wrong)?),
            b"least" => kind.least = number(value).map_err(wrong)?,
            b"peak" => kind.peak = number(value).map_err(wrong)?,
            b"stack" => kind.stack = number(value).map_err(wrong)?,
            b"overflow" => kind.overflow = number(value).map_err(wrong)?,
            b"overflows" => kind.overflows = number(value).map_err(wrong)?,
            b"threads" => threads = Some(number(value).map_err(wrong)?),
            b"runs" => kind.runs = number(value).map_err(wrong)?,
            b"symbol" => kind.symbol = Some(text(value).map_err(wrong)?),
            b"in" => kind.file = Some(text(value).map_err(wrong)?),
            _ => kind.creator = Some(text(value).map_err(wrong)?),
        }
    }
    kind.bound = bound.ok_or("it has no bound")?;
    kind.threads = threads.ok_or("it has no threads")?;
    Ok((Key { function: function.ok_or("it has no function")?, caller, label }, kind))
}

fn place(value: &[u8]) -> Result<Place, String> {
    const FORM: &str = "write BUILD-ID+0xOFFSET, or @FILE+0xOFFSET where there is no build-id";
    let plus = value.iter().rposition(|&byte| byte == b'+').ok_or(FORM)?;
    let module = String::from_utf8(decode(&value[..plus])?).map_err(|_| FORM)?;
    let is_name = module.len() > 1 && module.starts_with('@');
    let is_build_id = !module.is_empty() && module.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !(is_name || is_build_id) || module.len() > Place::MOST_BYTES || module.contains('\0') {
        return Err(FORM.to_owned());
    }
    let digits = value[plus + 1..].strip_prefix(b"0x").ok_or(FORM)?;
    if !(1..=16).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(FORM.to_owned());
    }
    let digits = std::str::from_utf8(digits).expect("they are ASCII");
    Ok(Place { module, offset: u64::from_str_radix(digits, 16).expect("at most 16 digits") })
}

fn number(value: &[u8]) -> Result<u64, String> {
    let digits = std::str::from_utf8(value).unwrap_or_default();
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| all_digits);
    number.ok_or_else(|| "this is no number, or too large".to_owned())
}

fn read_label(value: &[u8]) -> Result<Label, String> {
    let part = |prefix: &[u8]| value.strip_prefix(prefix).map(decode);
    Ok(match (part(b"name:"), part(b"role:")) {
        (Some(name), _) => Label::Name(name?),
        (_, Some(role)) => Label::Role(role?),
        // Also for a kind of label that only a later version knows.
        _ => Label::None,
    })
}

/// A name for users.
fn text(value: &[u8]) -> Result<String, String> {
    let mut text = String::from_utf8_lossy(&decode(value)?).into_owned();
    shorten(&mut text);
    Ok(text)
}

fn shorten(text: &mut String) {
    let mut end = text.len().min(NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// Decodes `%XX` into bytes.
fn decode(value: &[u8]) -> Result<Vec<u8>, String> {
    let two_digits = |after: &[u8]| {
        after.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !value.split(|&byte| byte == b'%').skip(1).all(two_digits) {
        return Err("a % has no two hexadecimal digits behind it".to_owned());
    }
    Ok(percent_decode(value).collect())
}

/// Plain text without spaces stays; every other byte becomes `%XX`.
fn encode(bytes: &[u8], to: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character == ' ' || character.is_control() {
                let mut utf8 = [0; 4];
                escape(character.encode_utf8(&mut utf8).as_bytes(), to);
            } else {
                to.push(character);
            }
        }
        escape(chunk.invalid(), to);
    }
}

fn escape(bytes: &[u8], to: &mut String) {
    for byte in bytes {
        let _ = write!(to, "%{byte:02X}");
    }
}

impl Profile {
    /// The profile as text, and the number of kinds that had no room in it.
    pub fn format(&self) -> (String, usize) {
        let (mut most, mut dropped) = (MOST_KINDS, 0);
        let mut profile = std::borrow::Cow::Borrowed(self);
        loop {
            if profile.kinds.len() > most {
                dropped += profile.to_mut().keep(most);
            }
            let text = profile.write();
            if text.len() <= MOST_BYTES {
                return (text, dropped);
            }
            most = profile.kinds.len() * 9 / 10;
        }
    }

    fn write(&self) -> String {
        let mut text = String::from_utf8_lossy(FIRST_LINE).into_owned() + "\nprogram ";
        encode(self.program.as_bytes(), &mut text);
        text.push('\n');
        for (key, kind) in &self.kinds {
            write_kind(key, kind, &mut text);
        }
        text
    }
}

fn write_kind(key: &Key, kind: &Kind, to: &mut String) {
    let place = |place: &Place, to: &mut String| {
        encode(place.module.as_bytes(), to);
        let _ = write!(to, "+{:#x}", place.offset);
    };
    to.push_str("kind function=");
    place(&key.function, to);
    to.push_str(" caller=");
    match &key.caller {
        Some(caller) => place(caller, to),
        None => to.push('-'),
    }
    to.push_str(" label=");
    match &key.label {
        Label::None => to.push('-'),
        Label::Name(name) => {
            to.push_str("name:");
            encode(name, to);
        }
        Label::Role(role) => {
            to.push_str("role:");
            encode(role, to);
        }
    }
    let Kind { bound, least, peak, stack, overflow, overflows, threads, runs, .. } = kind;
    let _ = write!(
        to,
        " bound={bound} least={least} peak={peak} stack={stack} overflow={overflow} \
         overflows={overflows} threads={threads} runs={runs}"
    );
    if kind.explicit {
        to.push_str(" explicit=1");
    }
    for (name, value) in [("symbol", &kind.symbol), ("in", &kind.file), ("from", &kind.creator)] {
        if let Some(value) = value {
            let mut value = value.clone();
            shorten(&mut value);
            let _ = write!(to, " {name}=");
            encode(value.as_bytes(), to);
        }
    }
    to.push('\n');
}
