// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek stack advice`: the lines to add to a program's source.
use super::source::{Found, From, EXIT_STATUS};
use crate::stack_use::render::{self, advised, Judgement, Rows};
use crate::units::size;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use tek_abi::printable;
use tek_stack::Kind;

const AFTER_HELP: &str = "\
EXAMPLES:
  tek stack advice memcached
  tek stack advice --c memcached > stacks.h
  tek stack advice --c -- ./fridge --window

With --c there is one function for each place where threads are created, to be
called with the attributes that pthread_create(3) gets there. Its size is that
of the threads from there that need most. In a program that is not C the number
is what counts: std::thread takes no attributes, a Rust thread's Builder does.
";

/// Arguments of `tek stack advice`.
#[derive(clap::Args)]
#[command(
    after_help = format!("{AFTER_HELP}\n{EXIT_STATUS}"),
    override_usage = "tek stack advice [OPTIONS] [PROGRAM]\n       \
                      tek stack advice [OPTIONS] -- COMMAND [ARGUMENT]..."
)]
pub struct Args {
    #[command(flatten)]
    from: From,

    /// Print calls of pthread_attr_setstacksize(3) for the source
    #[arg(long, conflicts_with = "json")]
    c: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The threads that are created at one place to run one function.
struct Site {
    function: String,
    file: Option<String>,
    module: String,
    creator: Option<String>,
    labels: Vec<String>,
    all: Kind,
}

#[derive(Serialize)]
struct Advised {
    program: String,
    build_id: Option<String>,
    source: String,
    kinds: Vec<render::Row>,
}

/// Prints it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = match args.from.find(args.json || args.c)? {
        Ok(answer) => answer,
        Err(status) => return Ok(status),
    };
    let text = if args.json {
        let programs: Vec<_> = answer.found.iter().map(advised_as_json).collect();
        let text = serde_json::json!({ "schema": 1, "programs": programs });
        crate::json::pretty(&text)? + "\n"
    } else if args.c {
        in_c(&answer.found)
    } else {
        let texts: Vec<_> = answer.found.iter().map(in_words).collect();
        match texts.is_empty() {
            true => answer.nothing().to_owned(),
            false => texts.join("\n"),
        }
    };
    let mut out = answer.out;
    out.write_all(text.as_bytes())?;
    Ok(answer.end.map_or(ExitCode::SUCCESS, |end| end.pass_on()))
}

fn advised_as_json(found: &Found) -> Advised {
    Advised {
        program: found.profile.program.clone(),
        build_id: found.build_id.clone(),
        source: found.source.clone(),
        kinds: Rows::new(&found.profile, found.judgement).kinds,
    }
}

/// The sites of a program, with the names of their kinds.
fn sites(found: &Found) -> Vec<Site> {
    let mut sites = BTreeMap::<_, Site>::new();
    let all = found.profile.sites();
    for (key, kind) in &found.profile.kinds {
        let site = sites.entry(key.site()).or_insert_with(|| Site {
            function: render::function(key, kind),
            file: kind.file.clone(),
            module: key.function.module.clone(),
            creator: kind.creator.clone().or_else(|| key.caller.as_ref().map(ToString::to_string)),
            labels: Vec::new(),
            all: all[&key.site()].clone(),
        });
        site.labels.extend(render::label(key));
    }
    sites.into_values().collect()
}

fn in_words(found: &Found) -> String {
    let mut text = found.title() + "\n";
    for site in sites(found) {
        let _ = writeln!(
            text,
            "  {}: {}: {}",
            printable(site.function.as_bytes()),
            printable(site.measured().as_bytes()),
            advised(
                found.judgement.rule.advice(&site.all, found.judgement.zones),
                site.all.explicit
            )
        );
    }
    text
}

impl Site {
    fn measured(&self) -> String {
        let Kind { threads, runs, stack, bound, overflow, .. } = self.all;
        let mut text = match &self.creator {
            Some(creator) => format!("created in {creator}, "),
            None => String::new(),
        };
        if !self.labels.is_empty() {
            let shown: Vec<_> = self.labels.iter().take(5).map(String::as_str).collect();
            let more = if self.labels.len() > 5 { ", ..." } else { "" };
            let _ = write!(text, "called {}{more}, ", shown.join(", "));
        }
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let _ = write!(
            text,
            "{threads} thread{} in {runs} run{} used {} at most of {}",
            plural(threads),
            plural(runs),
            size(bound),
            if stack == 0 { "an unknown size".to_owned() } else { size(stack) }
        );
        if overflow != 0 {
            let _ = write!(text, ", and one ran out of {}", size(overflow));
        }
        text
    }
}

fn in_c(programs: &[Found]) -> String {
    let mut text = "\
/* Sizes of stacks as TEK measured them; tek stack advice --c printed this. */
#include <pthread.h>
#include <stddef.h>
"
    .to_owned();
    let mut names = HashSet::new();
    for found in programs {
        let _ = writeln!(text, "\n/* {} */", comment(&found.title()));
        for site in sites(found) {
            let file = site.file.as_deref().map_or(String::new(), |file| format!(" ({file})"));
            let _ = write!(
                text,
                "\n/*\n * {}{}:\n * {}.\n */\n",
                comment(&site.function),
                comment(&file),
                comment(&site.measured())
            );
            let Judgement { rule, zones } = found.judgement;
            let Some(bytes) = rule.needed(&site.all, zones) else {
                text.push_str("/* It was not measured yet. */\n");
                continue;
            };
            if found.build_id.as_ref().is_some_and(|id| *id != site.module) {
                let _ = writeln!(text, "/* {bytes} would do, but a library creates it. */");
                continue;
            }
            let name = unique(&site.function, &mut names);
            let _ = write!(
                text,
                "static inline int {name}(pthread_attr_t *attr)\n{{\n\treturn \
                 pthread_attr_setstacksize(attr, (size_t){bytes});\n}}\n"
            );
        }
    }
    text
}

/// Text that ends neither a comment nor a line.
fn comment(text: &str) -> String {
    let mut text = printable(text.as_bytes());
    for end in ["*/", "/*"] {
        // Repeated, because the rest may contain one again.
        while text.contains(end) {
            text = text.replace(end, &format!("{} {}", &end[..1], &end[1..]));
        }
    }
    // A pair of question marks could be a trigraph, a backslash continues the line.
    text.replace("??", "? ?").replace('\\', "/").replace("*/", "* /").replace("/*", "/ *")
}

/// An unused name in C, made from the last part of a function's.
fn unique(function: &str, names: &mut HashSet<String>) -> String {
    let mut name = "set_stack_of".to_owned();
    for word in last_part(function).split(|c: char| !c.is_ascii_alphanumeric()) {
        if !word.is_empty() && name.len() < 70 {
            name.push('_');
            name.push_str(word);
        }
    }
    let mut numbered = name.clone();
    let mut number = 1;
    while !names.insert(numbered.clone()) {
        number += 1;
        numbered = format!("{name}_{number}");
    }
    numbered
}

/// `run` of `int fridge::Door<int>::run(char)`, but `main::{lambda()#1}` as it is: a lambda's own
/// name is not distinctive.
fn last_part(function: &str) -> &str {
    let (mut depth, mut starts, mut end) = (0, vec![0], function.len());
    for (at, byte) in function.bytes().enumerate() {
        match byte {
            b'(' if depth == 0 && end == function.len() && at > 0 => {
                end = at;
                depth += 1;
            }
            b'<' | b'{' | b'(' | b'[' => depth += 1,
            b'>' | b'}' | b')' | b']' => depth -= 1,
            b':' | b' ' if depth == 0 && at < end => starts.push(at + 1),
            _ => {}
        }
    }
    starts.retain(|&start| start < end);
    let own = starts.pop().unwrap_or(0);
    let is_lambda = function[own..end].starts_with('{');
    let own = if is_lambda {
        starts.into_iter().rev().find(|&start| start + 2 < own).unwrap_or(0)
    } else {
        own
    };
    let part = &function[own..end];
    match part.find('<').filter(|&at| at > 0 && !is_lambda) {
        Some(at) => &part[..at],
        None => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_a_comment_or_is_used_twice() {
        for text in ["a*/b", "*/", "/*/", "a\nb", "**//", "x\\", "?\u{3f}/"] {
            let comment = comment(text);
            for bad in ["*/", "/*", "\n", "\\", "??"] {
                assert!(!comment.contains(bad), "{text:?}: {comment:?}");
            }
        }
        let mut names = HashSet::new();
        let mut unique = |function: &str| unique(function, &mut names);
        assert_eq!(unique("main::{lambda()#1}"), "set_stack_of_main_lambda_1");
        assert_eq!(unique("main::{lambda()#1}"), "set_stack_of_main_lambda_1_2");
        assert_eq!(
            unique("int ns::Door<std::pair<int, int> >::run(char, long)"),
            "set_stack_of_run"
        );
        assert_eq!(unique("ns::start<int>(int)"), "set_stack_of_start");
        assert_eq!(unique("worker_libevent"), "set_stack_of_worker_libevent");
        assert_eq!(unique("fridge+0x30"), "set_stack_of_fridge_0x30");
        assert_eq!(unique(")>:: ("), "set_stack_of");
        assert_eq!(unique("é"), "set_stack_of_2");
    }
}
