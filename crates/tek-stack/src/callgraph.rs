// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack that functions need at most, as far as a compiler can tell: gcc's `-fstack-usage`
//! (.su) and `-fcallgraph-info=su` (.ci, in the VCG format).
//!
//! What these files do not tell makes a result a lower bound, and is named: calls through
//! pointers, recursion, frames that grow at run time, and functions of which nothing is known.
//! The files may hold any bytes.
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
    /// How people call it: with its class and parameters in C++.
    pub name: String,
    /// FILE:LINE:COLUMN; empty where that is not known.
    pub place: String,
    /// Its frame; `None`: of this function nothing is known.
    pub frame: Option<Frame>,
    /// What it calls by name.
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
    /// It grows at run time, by what nobody knows: alloca(3), arrays of variable length.
    pub grows: bool,
}

/// What a function needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes on the deepest path, each function counted once.
    pub bytes: u64,
    /// The path, the function itself first.
    pub path: Vec<Index>,
    /// What is not in it.
    pub unknown: Unknown,
}

/// Why a need is a lower bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Functions that call through a pointer.
    pub indirect: Vec<Index>,
    /// Functions that call themselves, by way of each other: a group each.
    pub recursive: Vec<Vec<Index>>,
    /// Functions whose frames grow.
    pub growing: Vec<Index>,
    /// Functions of which nothing is known, such as those of libraries.
    pub foreign: Vec<Index>,
    /// Functions of which only the frame is known.
    pub uncharted: Vec<Index>,
}

impl Unknown {
    /// Whether the need is all there can be.
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
    /// There are functions of which not everything is known.
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

/// A function that nobody calls by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The function.
    pub function: Index,
    /// Bytes on its deepest path.
    pub bytes: u64,
    /// What is not in it.
    pub doubts: Doubts,
}

/// Where gcc says that a call goes through a pointer.
const INDIRECT: &str = "__indirect_call";

impl Graph {
    /// Adds a .ci file; how many functions with frames it has.
    pub fn add_ci(&mut self, bytes: &[u8]) -> usize {
        self.files += 1;
        let mut unit = None;
        let mut found = 0;
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("graph:") {
                unit = attribute(rest, "title").map(|title| format!("{title}:"));
            } else if let Some(rest) = line.strip_prefix("node:") {
                found += usize::from(self.add_node(rest, unit.as_deref()));
            } else if let Some(rest) = line.strip_prefix("edge:") {
                self.add_edge(rest, unit.as_deref());
            }
        }
        found
    }

    /// Adds a .su file for which there is no .ci file; how many functions it has.
    pub fn add_su(&mut self, bytes: &[u8]) -> usize {
        self.files += 1;
        let mut found = 0;
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut fields = line.trim_end().split('\t');
            let (Some(function), Some(bytes), Some(kind)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (Ok(bytes), Some((place, name))) = (bytes.parse(), place_and_name(function)) else {
                continue;
            };
            let index = self.function(name, None);
            let function = &mut self.functions[index];
            function.calls_unknown = function.frame.is_none() || function.calls_unknown;
            function.place = place.to_owned();
            function.add_frame(Frame { bytes, grows: grows(kind) });
            found += 1;
        }
        found
    }

    fn add_node(&mut self, text: &str, unit: Option<&str>) -> bool {
        let Some(title) = attribute(text, "title").filter(|&title| title != INDIRECT) else {
            return false;
        };
        let index = self.function(title, unit);
        let function = &mut self.functions[index];
        let Some(label) = last_attribute(text, "label") else { return false };
        let mut parts = label.split("\\n");
        if let Some(name) = parts.next().filter(|name| !name.is_empty()) {
            function.name = name.to_owned();
        }
        let Some(place) = parts.next() else { return false };
        let frame = parts.find_map(frame);
        if frame.is_some() || function.frame.is_none() {
            function.place = place.to_owned();
        }
        if let Some(frame) = frame {
            function.add_frame(frame);
            function.calls_unknown = false;
        }
        frame.is_some()
    }

    fn add_edge(&mut self, text: &str, unit: Option<&str>) {
        let (Some(from), Some(to)) = (attribute(text, "sourcename"), attribute(text, "targetname"))
        else {
            return;
        };
        if from == INDIRECT {
            return;
        }
        let from = self.function(from, unit);
        if to == INDIRECT {
            self.functions[from].calls_indirectly = true;
        } else {
            let to = self.function(to, unit);
            self.functions[from].calls.push(to);
        }
    }

    /// The function of a title, made if need be. That of a static function begins with the
    /// name of its file.
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

    /// How many functions have frames.
    pub fn known(&self) -> usize {
        self.functions.iter().filter(|function| function.frame.is_some()).count()
    }

    /// Whether calls are known, of any function.
    pub fn has_calls(&self) -> bool {
        self.functions.iter().any(|function| function.frame.is_some() && !function.calls_unknown)
    }

    /// The functions that are called so: by symbol, or by name with or without parameters, return
    /// type and the scopes around it.
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

    /// The functions that nobody calls by name, and one of each group that only calls itself; the
    /// deepest first. Takes time in proportion to the size of the graph.
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
            // The one from which the walk entered it was finished last.
            let function = *group.members.first()?;
            self.functions[function].frame?;
            Some(Root { function, bytes: walk.bytes[function], doubts: group.doubts })
        });
        let mut roots: Vec<_> = roots.collect();
        roots.sort_by(|a, b| {
            let names = || self.functions[a.function].name.cmp(&self.functions[b.function].name);
            b.bytes.cmp(&a.bytes).then_with(names)
        });
        roots
    }

    /// What a function needs.
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

/// Functions each of which calls every other, directly or not; or one.
struct Group {
    /// The one by which the walk came in first.
    members: Vec<Index>,
    recursive: bool,
    doubts: Doubts,
}

/// A walk in depth, Tarjan's, without recursion of its own.
struct Walk {
    bytes: Vec<u64>,
    next: Vec<Option<Index>>,
    group_of: Vec<usize>,
    groups: Vec<Group>,
}

/// No group yet.
const NONE: usize = usize::MAX;

impl Walk {
    fn over(graph: &Graph, starts: impl IntoIterator<Item = Index>) -> Self {
        let count = graph.functions.len();
        let mut walk = Self {
            bytes: vec![0; count],
            next: vec![None; count],
            group_of: vec![NONE; count],
            groups: Vec::new(),
        };
        let mut number = vec![NONE; count];
        let mut low = vec![NONE; count];
        let mut finished = vec![false; count];
        let mut ungrouped = Vec::new();
        let mut visited = 0;
        for start in starts {
            if number[start] != NONE {
                continue;
            }
            let mut path = vec![(start, 0)];
            while let Some((at, edge)) = path.last_mut() {
                let at = *at;
                if *edge == 0 {
                    number[at] = visited;
                    low[at] = visited;
                    visited += 1;
                    ungrouped.push(at);
                }
                let calls = &graph.functions[at].calls;
                // An edge is looked at when it is come by, and once more when its end is done.
                if let Some(&to) = calls.get(*edge) {
                    *edge += 1;
                    if number[to] == NONE {
                        path.push((to, 0));
                    } else if walk.group_of[to] == NONE {
                        low[at] = low[at].min(number[to]);
                    }
                    continue;
                }
                path.pop();
                for &to in calls {
                    if walk.group_of[to] == NONE {
                        low[at] = low[at].min(low[to]);
                    }
                    // A call back to where the path came from is recursion, and counts once.
                    if finished[to] && (walk.next[at].is_none() || walk.bytes[to] > walk.bytes[at])
                    {
                        walk.bytes[at] = walk.bytes[to];
                        walk.next[at] = Some(to);
                    }
                }
                let own = graph.functions[at].frame.map_or(0, |frame| frame.bytes);
                walk.bytes[at] = walk.bytes[at].saturating_add(own);
                finished[at] = true;
                if low[at] == number[at] {
                    walk.close(graph, &mut ungrouped, at);
                }
            }
        }
        walk
    }

    /// What was found since `first` is a group.
    fn close(&mut self, graph: &Graph, ungrouped: &mut Vec<Index>, first: Index) {
        let begin = ungrouped.iter().rposition(|&index| index == first).unwrap_or(0);
        let members = ungrouped.split_off(begin);
        let own = self.groups.len();
        for &member in &members {
            self.group_of[member] = own;
        }
        let recursive = members.len() > 1 || graph.functions[first].calls.contains(&first);
        let mut doubts = Doubts { recursive, ..Doubts::default() };
        for &member in &members {
            doubts.add(graph.functions[member].doubts());
            for &to in &graph.functions[member].calls {
                if self.group_of[to] != own {
                    doubts.add(self.groups[self.group_of[to]].doubts);
                }
            }
        }
        self.groups.push(Group { members, recursive, doubts });
    }
}

/// The value of `NAME: "VALUE"`.
fn attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The same of the last one in a line, which may hold quotation marks: `operator""_km`.
fn last_attribute<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!(" {name}:"))?;
    let rest = rest.trim_start().strip_prefix('"')?;
    rest.rsplit_once('"').map(|(value, _)| value)
}

/// `96 bytes (static)`.
fn frame(text: &str) -> Option<Frame> {
    let (bytes, kind) = text.split_once(" bytes (")?;
    Some(Frame { bytes: bytes.trim().parse().ok()?, grows: grows(kind.strip_suffix(')')?) })
}

/// `dynamic,bounded` is known: the most is in its size.
fn grows(kind: &str) -> bool {
    kind.starts_with("dynamic") && !kind.contains("bounded")
}

/// FILE:LINE:COLUMN:NAME, where the name may hold colons, and the file too.
fn place_and_name(text: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let colons: Vec<_> = text.match_indices(':').map(|(at, _)| at).collect();
    colons.windows(3).find_map(|at| {
        let numbers = is_number(&text[at[0] + 1..at[1]]) && is_number(&text[at[1] + 1..at[2]]);
        numbers.then(|| (&text[..at[2]], &text[at[2] + 1..]))
    })
}

/// `ns::f` of `int ns::f(int)`.
fn without_parameters(name: &str) -> &str {
    let bare = name.split_once('(').map_or(name, |(before, _)| before);
    bare.rsplit_once(' ').map_or(bare, |(_, last)| last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    /// What gcc 12 writes.
    const C: &str = r#"graph: { title: "a.c"
node: { title: "a.c:leaf" label: "leaf\na.c:7:39\n1024 bytes (static)" }
node: { title: "__indirect_call" label: "Indirect Call Placeholder" shape : ellipse }
edge: { sourcename: "a.c:leaf" targetname: "__indirect_call" label: "a.c:7:104" }
node: { title: "middle" label: "middle\na.c:8:32\n2016 bytes (static)" }
edge: { sourcename: "middle" targetname: "a.c:leaf" label: "a.c:8:89" }
node: { title: "recurse" label: "recurse\na.c:9:31\n128 bytes (static)" }
edge: { sourcename: "recurse" targetname: "recurse" label: "a.c:9:91" }
node: { title: "dyn" label: "dyn\na.c:10:32\n32 bytes (dynamic)\n1 dynamic objects" }
edge: { sourcename: "dyn" targetname: "a.c:leaf" label: "a.c:10:83" }
node: { title: "start" label: "start\na.c:11:7\n16 bytes (static)" }
edge: { sourcename: "start" targetname: "middle" label: "a.c:11:24" }
edge: { sourcename: "start" targetname: "recurse" label: "a.c:11:35" }
node: { title: "printf" label: "printf\n/usr/include/stdio.h:356:12" shape : ellipse }
edge: { sourcename: "start" targetname: "printf" label: "a.c:11:35" }
edge: { sourcename: "start" targetname: "dyn" label: "a.c:11:63" }
node: { title: "safe" label: "safe\na.c:12:5\n48 bytes (dynamic,bounded)" }
}
"#;
    const CXX: &str = r#"graph: { title: "b.cpp"
node: { title: "b.cpp:_ZN2ns1T1fEi.isra.0" label: "int ns::T::f(int)\nb.cpp:2:57\n200 bytes (static)" }
node: { title: "b.cpp:leaf" label: "int leaf()\nb.cpp:2:165\n80 bytes (static)" }
edge: { sourcename: "b.cpp:leaf" targetname: "b.cpp:_ZN2ns1T1fEi.isra.0" label: "b.cpp:2:219" }
node: { title: "_Zli3_kmy" label: "int operator""_km(unsigned long long)\nb.cpp:3:5\n8 bytes (static)" }
}
"#;

    fn graph(files: &[&str]) -> Graph {
        let mut graph = Graph::default();
        for file in files {
            graph.add_ci(file.as_bytes());
        }
        graph
    }

    fn names(graph: &Graph, functions: &[Index]) -> Vec<String> {
        functions.iter().map(|&index| graph.get(index).name.clone()).collect()
    }

    #[test]
    fn the_deepest_path_is_found_and_what_is_not_in_it_is_named() {
        let graph = graph(&[C]);
        let [start] = graph.find("start")[..] else { panic!() };
        let need = graph.need(start);
        assert_eq!(need.bytes, 16 + 2016 + 1024);
        assert_eq!(names(&graph, &need.path), ["start", "middle", "leaf"]);
        assert_eq!(names(&graph, &need.unknown.indirect), ["leaf"]);
        assert_eq!(names(&graph, &need.unknown.recursive[0]), ["recurse"]);
        assert_eq!(names(&graph, &need.unknown.growing), ["dyn"]);
        assert_eq!(names(&graph, &need.unknown.foreign), ["printf"]);
        let [safe] = graph.find("safe")[..] else { panic!() };
        assert!(graph.need(safe).unknown.is_empty());
    }

    #[test]
    fn roots_come_deepest_first() {
        let graph = graph(&[C]);
        let roots = graph.roots();
        let found: Vec<_> =
            roots.iter().map(|root| graph.get(root.function).name.as_str()).collect();
        assert_eq!(found, ["start", "safe"]);
        assert_eq!((roots[0].bytes, roots[1].bytes), (3056, 48));
        let all = Doubts { indirect: true, recursive: true, growing: true, foreign: true };
        assert_eq!((roots[0].doubts, roots[1].doubts.any()), (all, false));
    }

    #[test]
    fn static_functions_of_two_files_are_two() {
        let graph = graph(&[C, CXX]);
        assert_eq!(graph.find("leaf").len(), 2);
        assert_eq!(graph.known(), 9);
    }

    #[test]
    fn a_cxx_function_is_found_by_any_of_its_names() {
        let graph = graph(&[CXX]);
        for name in ["int ns::T::f(int)", "ns::T::f", "T::f", "f", "_ZN2ns1T1fEi.isra.0"] {
            assert_eq!(graph.find(name).len(), 1, "{name}");
        }
        assert!(graph.find("s::T::f").is_empty() && graph.find("").is_empty());
        assert_eq!(graph.find("operator\"\"_km").len(), 1);
    }

    #[test]
    fn a_function_defined_elsewhere_is_known_once_its_file_is_read() {
        let uses = "graph: { title: \"u.c\"\n\
            node: { title: \"use\" label: \"use\\nu.c:1:1\\n10 bytes (static)\" }\n\
            node: { title: \"safe\" label: \"safe\\nu.h:1:1\" shape : ellipse }\n\
            edge: { sourcename: \"use\" targetname: \"safe\" label: \"u.c:1:2\" }\n";
        let alone = graph(&[uses]);
        assert_eq!(alone.need(alone.find("use")[0]).unknown.foreign.len(), 1);
        for files in [[uses, C], [C, uses]] {
            let both = graph(&files);
            let need = both.need(both.find("use")[0]);
            assert_eq!((need.bytes, need.unknown.is_empty()), (58, true));
        }
    }

    #[test]
    fn frames_alone_are_a_lower_bound() {
        let mut graph = Graph::default();
        let su =
            "a.c:7:39:leaf\t1024\tstatic\nd:/x.cc:2:57:int ns::T::f(int)\t200\tdynamic\nnonsense\n";
        assert_eq!(graph.add_su(su.as_bytes()), 2);
        assert!(!graph.has_calls());
        let leaf = graph.need(graph.find("leaf")[0]);
        assert_eq!((leaf.bytes, leaf.unknown.uncharted.len()), (1024, 1));
        assert_eq!(graph.get(graph.find("ns::T::f")[0]).place, "d:/x.cc:2:57");
    }

    #[test]
    fn a_group_that_only_calls_itself_has_a_root() {
        let cycle = "graph: { title: \"c.c\"\n\
            node: { title: \"ping\" label: \"ping\\nc.c:1:1\\n100 bytes (static)\" }\n\
            node: { title: \"pong\" label: \"pong\\nc.c:2:1\\n50 bytes (static)\" }\n\
            edge: { sourcename: \"ping\" targetname: \"pong\" label: \"\" }\n\
            edge: { sourcename: \"pong\" targetname: \"ping\" label: \"\" }\n";
        let graph = graph(&[cycle]);
        let roots = graph.roots();
        assert_eq!((roots.len(), roots[0].bytes, roots[0].doubts.recursive), (1, 150, true));
        for name in ["ping", "pong"] {
            let need = graph.need(graph.find(name)[0]);
            assert_eq!((need.bytes, need.unknown.recursive[0].len()), (150, 2));
        }
    }

    /// A graph of so many functions with the calls that `calls` gives each.
    fn made(count: usize, calls: impl Fn(usize) -> Vec<usize>) -> Graph {
        let mut graph = Graph::default();
        let mut text = String::from("graph: { title: \"x.c\"\n");
        for index in 0..count {
            text.push_str(&format!(
                "node: {{ title: \"f{index}\" label: \"f{index}\\nx.c:{index}:1\\n{} bytes (static)\" }}\n",
                index % 100 + 1
            ));
            for to in calls(index) {
                text.push_str(&format!(
                    "edge: {{ sourcename: \"f{index}\" targetname: \"f{to}\" label: \"\" }}\n"
                ));
            }
        }
        graph.add_ci(text.as_bytes());
        graph
    }

    #[test]
    fn large_graphs_of_any_shape_take_no_more_than_linear_time() {
        const COUNT: usize = 100_000;
        let shapes: [fn(usize) -> Vec<usize>; 4] = [
            |index| vec![(index + 1) % COUNT],
            |index| if index + 1 < COUNT { vec![index + 1] } else { vec![] },
            |index| (1..5).map(|step| (index * 31 + step * 7919) % COUNT).collect(),
            |index| (1..5).map(|step| (index + step).min(COUNT - 1)).collect(),
        ];
        for (shape, calls) in shapes.into_iter().enumerate() {
            let graph = made(COUNT, calls);
            let began = Instant::now();
            assert!(!graph.roots().is_empty());
            assert!(graph.need(0).bytes > 0);
            let took = began.elapsed();
            // A second in the command; a build for tests on a busy machine is slower.
            assert!(took < Duration::from_secs(5), "shape {shape} took {took:?}");
        }
    }

    /// The deepest path in a graph without cycles, the slow way.
    fn deepest(graph: &Graph, at: Index) -> u64 {
        let function = graph.get(at);
        let below = function.calls.iter().map(|&to| deepest(graph, to)).max().unwrap_or(0);
        below + function.frame.map_or(0, |frame| frame.bytes)
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut graph = Graph::default();
            graph.add_ci(&noise);
            graph.add_su(&noise);
            graph.roots();
        }

        #[test]
        fn no_damage_makes_the_readers_panic(
            at in 0..C.len(), noise in proptest::collection::vec(any::<u8>(), 1..20), cut in 0..C.len(),
        ) {
            let mut bytes = C.as_bytes().to_vec();
            bytes.splice(at..(at + noise.len()).min(C.len()), noise);
            bytes.truncate(cut.max(at));
            let mut graph = Graph::default();
            graph.add_ci(&bytes);
            graph.add_su(&bytes);
            for root in graph.roots() {
                let need = graph.need(root.function);
                prop_assert_eq!(need.path[0], root.function);
            }
        }

        #[test]
        fn any_shape_of_calls_has_an_end_and_a_path_that_adds_up(
            calls in proptest::collection::vec(proptest::collection::vec(0usize..20, 0..4), 1..20),
        ) {
            let count = calls.len();
            let graph = made(count, |index| calls[index].iter().map(|to| to % count).collect());
            for root in graph.roots() {
                prop_assert_eq!(root.doubts.any(), !graph.need(root.function).unknown.is_empty());
            }
            for index in 0..count {
                let need = graph.need(index);
                let sum: u64 = need.path.iter().map(|&at| graph.get(at).frame.unwrap().bytes).sum();
                prop_assert_eq!(need.bytes, sum);
                let mut once = need.path.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(once.len(), need.path.len());
            }
        }

        #[test]
        fn without_cycles_the_deepest_path_is_the_deepest(
            calls in proptest::collection::vec(proptest::collection::vec(1usize..6, 0..3), 1..16),
        ) {
            let count = calls.len();
            let graph = made(count, |index| {
                calls[index].iter().map(|step| index + step).filter(|&to| to < count).collect()
            });
            for index in 0..count {
                let need = graph.need(index);
                prop_assert_eq!(need.bytes, deepest(&graph, index));
                prop_assert!(need.unknown.is_empty());
            }
        }
    }
}
