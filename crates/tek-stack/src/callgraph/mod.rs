// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack that functions need at most, as far as a compiler knows it: gcc's `-fstack-usage`
//! (.su) and `-fcallgraph-info=su` (.ci, in the VCG format).
//!
//! Gaps in these files make a result a lower bound, and the result names them: calls through
//! pointers, recursion, frames that grow at run time, and functions without data. The files may
//! hold any bytes.
mod ci;
mod deepest;
mod su;
#[cfg(test)]
mod tests;

use deepest::Walk;
use std::collections::HashMap;

/// A graph of functions and their calls.
#[derive(Debug, Default)]
pub struct Graph {
    functions: Vec<Function>,
    by_title: HashMap<String, usize>,
    /// Files read so far: a function that is static in one is another in the next.
    files: usize,
}

/// A function of the graph, by its index.
pub type Index = usize;

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub symbol: String,
    /// Its name in source: with its class and parameters in C++.
    pub name: String,
    /// FILE:LINE:COLUMN; empty where that is not known.
    pub place: String,
    /// Its frame; `None`: there are no data on this function.
    pub frame: Option<Frame>,
    /// The functions that it calls by name.
    calls: Vec<Index>,
    /// It calls through a pointer.
    pub calls_indirectly: bool,
    /// Its calls are not known: there is only a .su file.
    pub calls_unknown: bool,
}

/// A frame on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its size, with the return address.
    pub bytes: u64,
    /// It grows at run time without a known bound: alloca(3), arrays of variable length.
    pub grows: bool,
}

/// A function's need of stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes on the deepest path, each function counted once.
    pub bytes: u64,
    /// The path, the function itself first.
    pub path: Vec<Index>,
    /// The calls and frames that it does not include.
    pub unknown: Unknown,
}

/// Why a need is a lower bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Functions that call through a pointer.
    pub indirect: Vec<Index>,
    /// Groups of functions that call themselves, directly or through each other.
    pub recursive: Vec<Vec<Index>>,
    /// Functions whose frames grow.
    pub growing: Vec<Index>,
    /// Functions without data, such as those of libraries.
    pub foreign: Vec<Index>,
    /// Functions of which only the frame is known.
    pub uncharted: Vec<Index>,
}

impl Unknown {
    /// Whether the need is exact, not a lower bound.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The same as [`Unknown`], without names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// There are calls through pointers.
    pub indirect: bool,
    /// There is recursion.
    pub recursive: bool,
    /// Frames grow.
    pub growing: bool,
    /// There are functions without complete data.
    pub foreign: bool,
}

impl Doubts {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.indirect || self.recursive || self.growing || self.foreign
    }

    fn add(&mut self, other: Self) {
        self.indirect |= other.indirect;
        self.recursive |= other.recursive;
        self.growing |= other.growing;
        self.foreign |= other.foreign;
    }
}

/// A function that no function calls by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The function.
    pub function: Index,
    /// Bytes on its deepest path.
    pub bytes: u64,
    /// The reasons why it may be more.
    pub doubts: Doubts,
}

impl Graph {
    /// The function of a title; a new one if there is none yet. The title of a static function
    /// begins with the name of its file.
    fn function(&mut self, title: &str, unit: Option<&str>) -> Index {
        let local = unit.and_then(|unit| title.strip_prefix(unit));
        let key = match local {
            Some(local) => format!("{}:{local}", self.files),
            None => format!(":{title}"),
        };
        let functions = &mut self.functions;
        *self.by_title.entry(key).or_insert_with(|| {
            let symbol = local.unwrap_or(title).to_owned();
            functions.push(Function { name: symbol.clone(), symbol, ..Function::default() });
            functions.len() - 1
        })
    }

    /// A function.
    pub fn get(&self, index: Index) -> &Function {
        &self.functions[index]
    }

    /// Number of functions with frames.
    pub fn known(&self) -> usize {
        self.functions.iter().filter(|function| function.frame.is_some()).count()
    }

    /// Whether the calls of any function are known.
    pub fn has_calls(&self) -> bool {
        self.functions.iter().any(|function| function.frame.is_some() && !function.calls_unknown)
    }

    /// The functions of that name: a symbol, or a name with or without parameters, return type and
    /// the scopes around it.
    pub fn find(&self, name: &str) -> Vec<Index> {
        let known =
            self.functions.iter().enumerate().filter(|(_, function)| function.frame.is_some());
        let found = known.filter(|(_, function)| {
            let bare = without_parameters(&function.name);
            // The compiler's copies have a suffix: f.constprop.0, f.isra.0, f.part.0.
            let original = function.symbol.split_once('.').map_or("", |(original, _)| original);
            function.symbol == name
                || function.name == name
                || (original == name && !original.is_empty())
                || bare == name
                || bare.strip_suffix(name).is_some_and(|scope| scope.ends_with("::"))
        });
        found.map(|(index, _)| index).collect()
    }

    /// The functions that no function calls by name, and one of each group that only calls itself;
    /// the deepest first. Takes time in proportion to the size of the graph.
    pub fn roots(&self) -> Vec<Root> {
        let mut called = vec![false; self.functions.len()];
        for (from, function) in self.functions.iter().enumerate() {
            for &to in function.calls.iter().filter(|&&to| to != from) {
                called[to] = true;
            }
        }
        let (callers, rest): (Vec<_>, Vec<_>) =
            (0..self.functions.len()).partition(|&index| !called[index]);
        let walk = Walk::over(self, callers.into_iter().chain(rest));
        let mut entered = vec![false; walk.groups.len()];
        for (from, function) in self.functions.iter().enumerate() {
            for &to in &function.calls {
                entered[walk.group_of[to]] |= walk.group_of[to] != walk.group_of[from];
            }
        }
        let groups = walk.groups.iter().enumerate().filter(|(group, _)| !entered[*group]);
        let roots = groups.filter_map(|(_, group)| {
            // The member by which the walk entered the group.
            let function = *group.members.first()?;
            self.functions[function].frame?;
            Some(Root { function, bytes: walk.bytes[function], doubts: group.doubts })
        });
        let mut roots: Vec<_> = roots.collect();
        tek_sort::by(&mut roots, |a, b| {
            let names = || self.functions[a.function].name.cmp(&self.functions[b.function].name);
            b.bytes.cmp(&a.bytes).then_with(names)
        });
        roots
    }

    /// A function's need of stack.
    pub fn need(&self, function: Index) -> Need {
        let walk = Walk::over(self, [function]);
        let path = std::iter::successors(Some(function), |&at| walk.next[at]).collect();
        let mut unknown = Unknown::default();
        for group in &walk.groups {
            if group.recursive {
                unknown.recursive.push(group.members.clone());
            }
            for &member in &group.members {
                let function = &self.functions[member];
                match function.frame {
                    None => unknown.foreign.push(member),
                    Some(frame) if frame.grows => unknown.growing.push(member),
                    Some(_) => {}
                }
                if function.calls_indirectly {
                    unknown.indirect.push(member);
                }
                if function.calls_unknown {
                    unknown.uncharted.push(member);
                }
            }
        }
        Need { bytes: walk.bytes[function], path, unknown }
    }
}

impl Function {
    /// A function that several files define, such as an inline one, is as large as the largest.
    fn add_frame(&mut self, frame: Frame) {
        let old = self.frame.unwrap_or(Frame { bytes: 0, grows: false });
        self.frame =
            Some(Frame { bytes: old.bytes.max(frame.bytes), grows: old.grows || frame.grows });
    }

    fn doubts(&self) -> Doubts {
        Doubts {
            indirect: self.calls_indirectly,
            recursive: false,
            growing: self.frame.is_some_and(|frame| frame.grows),
            foreign: self.frame.is_none() || self.calls_unknown,
        }
    }
}

/// `dynamic,bounded` is known: the size includes the bound.
fn grows(kind: &str) -> bool {
    kind.starts_with("dynamic") && !kind.contains("bounded")
}

/// `ns::f` of `int ns::f(int)`.
fn without_parameters(name: &str) -> &str {
    let bare = name.split_once('(').map_or(name, |(before, _)| before);
    bare.rsplit_once(' ').map_or(bare, |(_, last)| last)
}
