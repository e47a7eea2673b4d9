// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs of all shapes, and files with any bytes.
use super::*;
use nix::time::{clock_gettime, ClockId};
use proptest::prelude::*;
use std::time::Duration;

/// Output of gcc 12.
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
    let found: Vec<_> = roots.iter().map(|root| graph.get(root.function).name.as_str()).collect();
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
        let pair = graph(&files);
        let need = pair.need(pair.find("use")[0]);
        assert_eq!((need.bytes, need.unknown.is_empty()), (58, true));
    }
}

#[test]
fn a_check_that_ends_the_process_is_no_call() {
    for check in ["__stack_chk_fail", "__stack_chk_fail_local"] {
        let graph = graph(&[&format!(
            "graph: {{ title: \"p.c\"\n\
            node: {{ title: \"leaf\" label: \"leaf\\np.c:1:1\\n100 bytes (static)\" }}\n\
            node: {{ title: \"{check}\" label: \"{check}\\n<built-in>\" shape : ellipse }}\n\
            edge: {{ sourcename: \"leaf\" targetname: \"{check}\" label: \"p.c:2:1\" }}\n"
        )]);
        let need = graph.need(graph.find("leaf")[0]);
        assert_eq!((need.bytes, need.unknown.is_empty()), (100, true));
        assert!(graph.find(check).is_empty());
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
            "node: {{ title: \"f{index}\" label: \"f{index}\\nx.c:{index}:1\\n{} bytes (static)\" \
             }}\n",
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

/// CPU time of this thread only: other load of the CPU does not count.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
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
        let began = cpu_time();
        assert!(!graph.roots().is_empty());
        assert!(graph.need(0).bytes > 0);
        let took = cpu_time() - began;
        // The command takes a second; a build for tests is slower.
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
