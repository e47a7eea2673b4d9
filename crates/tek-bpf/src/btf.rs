// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's BTF, its type information: names of tracepoints and functions, per-CPU variables.
//!
//! Documentation/bpf/btf.rst of the kernel describes the format. The parser checks each offset,
//! although the bytes come from the kernel.
use crate::dependency::Target;
use crate::error::Error;
use std::collections::{HashMap, HashSet};

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;

/// A typedef with this prefix and the name of a tracepoint is the type of its function.
const TRACEPOINT: &[u8] = b"btf_trace_";

/// The section of per-CPU variables.
const PER_CPU: &[u8] = b".data..percpu";

/// The kinds of types.
mod kind {
    pub const INT: u32 = 1;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const ENUM64: u32 = 19;
    pub const LAST: u32 = 19;
}

/// The names in the BTF.
pub(crate) struct Btf {
    tracepoints: HashSet<Vec<u8>>,
    functions: HashSet<Vec<u8>>,
    /// The offset of each per-CPU variable.
    per_cpu: HashMap<Vec<u8>, i64>,
}

impl Btf {
    /// The BTF of the running kernel.
    pub(crate) fn of_kernel() -> Result<Self, Error> {
        Self::parse(&std::fs::read(PATH).map_err(|source| Error::NoBtf { source })?)
    }

    pub(crate) fn has(&self, target: Target) -> bool {
        match target {
            Target::Tracepoint(name) => self.tracepoints.contains(name.as_bytes()),
            Target::Function(name) => self.functions.contains(name.as_bytes()),
        }
    }

    /// The distance of preempt_count from a CPU's struct rq, where preempt_count is a variable.
    pub(crate) fn preempt_count(&self) -> Option<i64> {
        // In Linux 6.2 to 6.14 it is a member of the per-CPU struct pcpu_hot.
        const IN_STRUCT: i64 = 8;
        let in_struct = || self.distance("pcpu_hot").map(|hot| hot + IN_STRUCT);
        self.distance("__preempt_count").or_else(in_struct)
    }

    /// The distance of another per-CPU variable from a CPU's struct rq.
    pub(crate) fn distance(&self, variable: &str) -> Option<i64> {
        let at = |name: &str| self.per_cpu.get(name.as_bytes()).copied();
        Some(at(variable)? - at("runqueues")?)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let short = Error::BadBtf("it is too short");
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
        };
        if bytes.get(..2) != Some(&MAGIC.to_ne_bytes()) {
            return Err(Error::BadBtf("its magic number is wrong"));
        }
        let header = |at| word(at).map(|value| value as usize);
        let (Some(length), Some(types), Some(type_bytes), Some(names), Some(name_bytes)) =
            (header(4), header(8), header(12), header(16), header(20))
        else {
            return Err(short);
        };
        let part = |offset: usize, size: usize| {
            let from = length.checked_add(offset)?;
            bytes.get(from..from.checked_add(size)?)
        };
        let (Some(strings), Some(_)) = (part(names, name_bytes), part(types, type_bytes)) else {
            return Err(short);
        };
        let name = |offset: u32| {
            let rest = strings.get(offset as usize..)?;
            rest.split(|&byte| byte == 0).next()
        };
        let mut found = Self {
            tracepoints: HashSet::new(),
            functions: HashSet::new(),
            per_cpu: HashMap::new(),
        };
        // Types are numbered from 1, and a section follows its variables.
        let (mut number, mut variables) = (0u32, HashMap::new());
        let mut at = length + types;
        let end = at + type_bytes;
        while at < end {
            let (Some(offset), Some(info)) = (word(at), word(at + 4)) else { return Err(short) };
            let count = (info & 0xffff) as usize;
            number += 1;
            let is = info >> 24 & 0x1f;
            match is {
                kind::TYPEDEF => {
                    if let Some(known) = name(offset).and_then(|n| n.strip_prefix(TRACEPOINT)) {
                        found.tracepoints.insert(known.to_vec());
                    }
                }
                kind::FUNC => {
                    found.functions.extend(name(offset).map(<[u8]>::to_vec));
                }
                kind::VAR => {
                    variables.insert(number, offset);
                }
                kind::DATASEC if name(offset) == Some(PER_CPU) => {
                    for entry in (at + 12..).step_by(12).take(count) {
                        let (Some(variable), Some(place)) = (word(entry), word(entry + 4)) else {
                            return Err(short);
                        };
                        if let Some(name) = variables.get(&variable).and_then(|&o| name(o)) {
                            found.per_cpu.insert(name.to_vec(), i64::from(place));
                        }
                    }
                }
                _ => {}
            }
            at += 12
                + match is {
                    kind::INT | kind::VAR | kind::DECL_TAG => 4,
                    kind::ARRAY => 12,
                    kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
                    kind::ENUM | kind::FUNC_PROTO => 8 * count,
                    0..=kind::LAST => 0,
                    _ => return Err(Error::BadBtf("it has a kind of type that is not known")),
                };
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a header, these types, and these names, which begin with a zero.
    fn file(types: &[u32], names: &[u8]) -> Vec<u8> {
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
        for word in [24, 0, types.len(), types.len(), names.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        [bytes, types, names.to_vec()].concat()
    }

    #[test]
    fn tracepoints_and_functions_are_found_by_name() {
        let int = [1, 1 << 24, 4, 32];
        let typedef = [5, 8 << 24, 1];
        let function = [19, 12 << 24, 1];
        let bytes =
            file(&[&int[..], &typedef, &function].concat(), b"\0int\0btf_trace_one\0evict\0");
        let btf = Btf::parse(&bytes).unwrap();
        assert!(btf.has(Target::Tracepoint("one")));
        assert!(btf.has(Target::Function("evict")));
        assert!(!btf.has(Target::Function("one")));
        assert!(!btf.has(Target::Tracepoint("evict")));
    }

    #[test]
    fn the_distance_between_two_variables_of_a_cpu_is_known() {
        let int = [1, 1 << 24, 4, 32];
        let count = [5, 14 << 24, 1, 0];
        let queues = [21, 14 << 24, 1, 0];
        let section = [31, 15 << 24 | 2, 128, 2, 24, 4, 3, 64, 4];
        let names = b"\0int\0__preempt_count\0runqueues\0.data..percpu\0";
        let bytes = file(&[&int[..], &count, &queues, &section].concat(), names);
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.preempt_count(), Some(24 - 64));
        assert_eq!(btf.distance("ksoftirqd"), None);
    }

    #[test]
    fn a_file_that_ends_early_is_refused() {
        let whole = file(&[1, 3 << 24, 4, 0, 0, 0], b"\0a\0");
        assert!(Btf::parse(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_kind_that_is_not_known_is_refused_because_its_length_is_not() {
        assert!(Btf::parse(&file(&[1, 31 << 24, 0], b"\0a\0")).is_err());
    }
}
