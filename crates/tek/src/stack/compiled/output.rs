// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worst case, for a person and as JSON.
use super::files::Found;
use comfy_table::{CellAlignment, Table, TableStyle};
use serde::Serialize;
use std::io::{self, Write};
use tek_abi::printable;
use tek_stack::callgraph::{Doubts, Function, Graph, Index, Need, Unknown};

/// So many names of one kind are printed; JSON has all.
const MOST_NAMES: usize = 8;

/// A stable format, to which fields may be added.
#[derive(Serialize)]
struct Json {
    schema: u32,
    call_graph: bool,
    functions_known: usize,
    ci_files: usize,
    su_files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Vec<JsonRoot>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roots_in_all: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<JsonNeed>>,
}

#[derive(Serialize)]
struct JsonFunction {
    name: String,
    symbol: String,
    place: String,
    frame_bytes: Option<u64>,
    grows: bool,
}

#[derive(Serialize)]
struct JsonRoot {
    #[serde(flatten)]
    function: JsonFunction,
    bytes: u64,
    at_least: bool,
    because: Vec<&'static str>,
}

#[derive(Serialize)]
struct JsonNeed {
    #[serde(flatten)]
    function: JsonFunction,
    bytes: u64,
    at_least: bool,
    path: Vec<JsonFunction>,
    indirect: Vec<String>,
    recursive: Vec<Vec<String>>,
    growing: Vec<String>,
    unknown: Vec<String>,
    without_calls: Vec<String>,
}

fn json(found: &Found) -> Json {
    Json {
        schema: 1,
        call_graph: found.graph.has_calls(),
        functions_known: found.graph.known(),
        ci_files: found.ci_files,
        su_files: found.su_files,
        roots: None,
        roots_in_all: None,
        functions: None,
    }
}

fn json_function(function: &Function) -> JsonFunction {
    JsonFunction {
        name: function.name.clone(),
        symbol: function.symbol.clone(),
        place: function.place.clone(),
        frame_bytes: function.frame.map(|frame| frame.bytes),
        grows: function.frame.is_some_and(|frame| frame.grows),
    }
}

fn names(graph: &Graph, functions: &[Index]) -> Vec<String> {
    functions.iter().map(|&index| graph.get(index).name.clone()).collect()
}

/// The reasons why a need is only a lower bound.
fn words(doubts: Doubts) -> Vec<&'static str> {
    let all = [
        (doubts.indirect, "indirect"),
        (doubts.recursive, "recursive"),
        (doubts.growing, "growing"),
        (doubts.foreign, "unknown"),
    ];
    all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}

/// Functions that no other function calls by name, as JSON.
pub fn roots_json(found: &Found, most: usize) -> serde_json::Result<String> {
    let roots = found.graph.roots();
    let in_all = roots.len();
    let row = |root: &tek_stack::callgraph::Root| JsonRoot {
        function: json_function(found.graph.get(root.function)),
        bytes: root.bytes,
        at_least: root.doubts.any(),
        because: words(root.doubts),
    };
    crate::json::pretty(&Json {
        roots: Some(roots.iter().take(most).map(row).collect()),
        roots_in_all: Some(in_all),
        ..json(found)
    })
}

/// The needs of functions, as JSON.
pub fn functions_json(found: &Found, functions: &[Index]) -> serde_json::Result<String> {
    let graph = &found.graph;
    let row = |&index: &Index| {
        let Need { bytes, path, unknown } = graph.need(index);
        JsonNeed {
            function: json_function(graph.get(index)),
            bytes,
            at_least: !unknown.is_empty(),
            path: path.iter().map(|&at| json_function(graph.get(at))).collect(),
            indirect: names(graph, &unknown.indirect),
            recursive: unknown.recursive.iter().map(|group| names(graph, group)).collect(),
            growing: names(graph, &unknown.growing),
            unknown: names(graph, &unknown.foreign),
            without_calls: names(graph, &unknown.uncharted),
        }
    };
    crate::json::pretty(&Json {
        functions: Some(functions.iter().map(row).collect()),
        ..json(found)
    })
}

/// Functions that no other function calls by name, as a table.
pub fn roots(found: &Found, most: usize, out: &mut impl Write) -> io::Result<()> {
    let roots = found.graph.roots();
    writeln!(
        out,
        "Functions that no function calls by name: main, start routines of threads, callbacks.\n"
    )?;
    let mut table = table(&["STACK", "FUNCTION", "WHERE", "AT LEAST, BECAUSE OF"]);
    for root in roots.iter().take(most) {
        let function = found.graph.get(root.function);
        let because = words(root.doubts).join(", ");
        table.add_row([
            root.bytes.to_string(),
            shown(&function.name),
            shown(&function.place),
            if because.is_empty() { "-".into() } else { because },
        ]);
    }
    print(out, &mut table, 1)?;
    if roots.len() > most {
        writeln!(out, "\n{} more; --most {} shows all", roots.len() - most, roots.len())?;
    }
    Ok(())
}

/// The needs of functions, with the path and the parts that are missing in it.
pub fn functions(found: &Found, functions: &[Index], out: &mut impl Write) -> io::Result<()> {
    let graph = &found.graph;
    for (number, &index) in functions.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let function = graph.get(index);
        let need = graph.need(index);
        let at_least = if need.unknown.is_empty() { "" } else { "at least " };
        writeln!(
            out,
            "{} ({}) needs {at_least}{} bytes of stack.\n",
            shown(&function.name),
            shown(&function.place),
            need.bytes
        )?;
        let mut table = table(&["FRAME", "STACK", "FUNCTION", "WHERE"]);
        let mut sum = 0u64;
        for &at in &need.path {
            let function = graph.get(at);
            let frame = function.frame.map_or(0, |frame| frame.bytes);
            sum = sum.saturating_add(frame);
            let frame = function.frame.map_or("?".into(), |_| frame.to_string());
            table.add_row([frame, sum.to_string(), shown(&function.name), shown(&function.place)]);
        }
        print(out, &mut table, 2)?;
        because(graph, &need.unknown, out)?;
    }
    if !functions.is_empty() {
        writeln!(
            out,
            "\nOn the stack of a thread some 5 KiB come on top: control block, TLS, the C library."
        )?;
    }
    Ok(())
}

fn because(graph: &Graph, unknown: &Unknown, out: &mut impl Write) -> io::Result<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nAt least, because")?;
    let mut describe = |functions: &[Index], what: &str| {
        if functions.is_empty() {
            return Ok(());
        }
        writeln!(out, "  {what}: {}", listed(graph, functions))
    };
    describe(&unknown.indirect, "these call through pointers")?;
    describe(&unknown.growing, "these have frames that grow at run time")?;
    describe(&unknown.foreign, "of these nothing is known")?;
    describe(&unknown.uncharted, "of these the calls are not known")?;
    for group in unknown.recursive.iter().take(MOST_NAMES) {
        let what = if group.len() == 1 { "this calls itself" } else { "these call each other" };
        writeln!(out, "  {what}, and counts once: {}", listed(graph, group))?;
    }
    if unknown.recursive.len() > MOST_NAMES {
        writeln!(out, "  and {} more such groups", unknown.recursive.len() - MOST_NAMES)?;
    }
    Ok(())
}

fn listed(graph: &Graph, functions: &[Index]) -> String {
    let mut names: Vec<_> =
        functions.iter().take(MOST_NAMES).map(|&index| shown(&graph.get(index).name)).collect();
    if functions.len() > MOST_NAMES {
        names.push(format!("{} more", functions.len() - MOST_NAMES));
    }
    names.join(", ")
}

/// Text from a file must not control the terminal.
fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(header);
    table
}

fn print(out: &mut impl Write, table: &mut Table, numbers: usize) -> io::Result<()> {
    for column in table.column_iter_mut().take(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}
